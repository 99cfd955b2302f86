"""Measures all engines, of secondpass and of other packages, in one interleaved run.

    python -m benchmarks.speed.run                    # about 12 minutes on two idle cores
    python -m benchmarks.speed.run --full             # larger grids and more rounds
    python -m benchmarks.speed.run --collections FOLDER FOLDER

Each engine has its own process. In every round all engines score, in turn, the same query with 100
passages of workload A and one of workload B; the next round has other queries, so that no cache
helps. Figures are medians over the rounds, and medians of the ratios to sentence-transformers'
default in the same round. Other packages take part in some of the rounds only. Afterwards
secondpass's engines run on grids of candidates and lengths.

Writes build/bench-speed/speed.json; ``python -m benchmarks.speed.render`` makes tables and plots.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.speed import agreement, environments, machine, make_model, rows, workloads
from benchmarks.speed.driver import ROOT, Measured, Pool, Row

OUT = ROOT / "build" / "bench-speed"
COUNT = 100
LARGE_MB = 2000.0
"""Workers with more memory than this are stopped between rounds."""
GRID_BUDGET = 1024
"""Tokens a batch of the loop that takes part in the grids of a full run."""
REST = 200.0
"""Seconds for the grids after the rounds of a short run."""


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Args:
        rounds: number of rounds.
        peer_rounds: those in which other packages take part.
        candidates, lengths: points of the grids for secondpass.
        baseline_candidates, baseline_lengths: points for sentence-transformers.
        length_pairs: pairs per point of the grid of lengths.
        repeats: runs of every point with at most 1,000 candidates.
        minutes: other packages are left out of rounds if the run would take longer; 0: no limit.
    """

    rounds: int
    peer_rounds: tuple[int, ...]
    candidates: tuple[int, ...]
    lengths: tuple[int, ...]
    baseline_candidates: tuple[int, ...] = ()
    baseline_lengths: tuple[int, ...] = ()
    length_pairs: int = 50
    repeats: int = 2
    minutes: float = 0.0


SHORT = Plan(
    rounds=5,
    peer_rounds=(0, 2, 4),
    candidates=(10, 30, 100, 300, 1000),
    lengths=(16, 64, 128, 256, 512),
    minutes=12.5,
)
FULL = Plan(
    rounds=7,
    peer_rounds=(0, 1, 2, 3, 4, 5, 6),
    candidates=(10, 30, 100, 300, 1000, 3000, 10_000),
    lengths=(16, 32, 64, 128, 192, 256, 384, 512),
    baseline_candidates=(10, 30, 100, 300, 1000),
    baseline_lengths=(16, 32, 64, 128, 192, 256, 384, 512),
    length_pairs=100,
    repeats=3,
)
QUICK = Plan(2, (0,), (10, 30), (16, 64), (), (), 8, 1)
"""Checks that everything runs; its figures are not meaningful."""


def flop_per_pair(config: dict[str, Any], tokens: Sequence[int]) -> float:
    """Mean floating-point operations of a pair in the encoder's matrix products, without padding.

    Per layer and token 4 products of width by width and 2 of width by inner, and per layer and pair
    two products of tokens by tokens by width for attention, each multiplication with its addition.
    """
    width, inner = config["hidden_size"], config["intermediate_size"]
    layers = config["num_hidden_layers"]
    per_token = 2 * (4 * width**2 + 2 * width * inner)
    total = sum(length * per_token + 4 * length**2 * width for length in tokens)
    return float(layers * total / len(tokens))


def make_requests(
    plan: Plan, tokenizer: Any, data: Sequence[Path], count: int
) -> dict[str, list[workloads.Request]]:
    """All requests of a run by name: A, B, warm-up and the points of the grids."""
    found: dict[str, list[workloads.Request]] = {}
    for place, name in enumerate(workloads.SHAPES):
        if data:
            folder = data[min(place, len(data) - 1)]
            found[name] = workloads.from_collection(folder, plan.rounds, count)
        else:
            found[name] = workloads.generated(tokenizer, name, plan.rounds, count)
    found["warm-up"] = [
        workloads.generated(tokenizer, name, 1, count, seed=99)[0] for name in workloads.SHAPES
    ]
    for number in {*plan.candidates, *plan.baseline_candidates}:
        found[f"candidates-{number}"] = workloads.generated(
            tokenizer, "A", repeats(plan, number), number, seed=number
        )
    for tokens in {*plan.lengths, *plan.baseline_lengths}:
        found[f"length-{tokens}"] = [
            workloads.of_length(tokenizer, tokens, plan.length_pairs, seed=tokens + 10_000 * repeat)
            for repeat in range(plan.repeats)
        ]
    return found


def repeats(plan: Plan, candidates: int) -> int:
    return plan.repeats if candidates <= 1000 else 1


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure_rounds(
    pool: Pool, plan: Plan, often: list[Row], sometimes: list[Row], started: float
) -> None:
    """Score the same requests with every row in turn; the order rotates."""
    peer_seconds = 0.0
    for number in range(plan.rounds):
        asked = list(often)
        with_peers = number in plan.peer_rounds
        elapsed = time.monotonic() - started
        if plan.minutes and elapsed + peer_seconds + REST > 60 * plan.minutes:
            with_peers = with_peers and number == 0
        if with_peers:
            asked += sometimes
        shift = number * 3 % len(asked)
        log(f"round {number + 1} of {plan.rounds}, {len(asked)} rows")
        before = time.monotonic()
        for row in asked[shift:] + asked[:shift]:
            reply = None
            for workload in workloads.SHAPES:
                # Other packages are slow; a short warm-up is enough.
                warm_up = 20 if row.group == "peer" else COUNT
                reply = pool.score(row, workload, number, warm_up=warm_up)
                if reply is None:
                    log(f"{row.name}: {pool.of(row).error}")
                    break
            if reply is not None and reply["peak_mb"] > LARGE_MB:
                pool.stop(row)
        if with_peers:
            peer_seconds = time.monotonic() - before


def measure_starts(pool: Pool, measured_rows: list[Row], times: int) -> None:
    """Restart rows with fewer starts than ``times``, to measure process start to first score."""
    for _ in range(times):
        for row in measured_rows:
            if not pool.of(row).error and len(pool.of(row).start) < times:
                pool.stop(row)
                pool.start(row)


def measure_grids(pool: Pool, plan: Plan, ours: list[Row], baseline: Row) -> dict[str, list[Any]]:
    """CPU and wall seconds at every point of the grids."""
    grids: dict[str, list[Any]] = {"candidates": [], "length": []}
    for kind, points, baseline_points in (
        ("candidates", plan.candidates, plan.baseline_candidates),
        ("length", plan.lengths, plan.baseline_lengths),
    ):
        for point in points:
            log(f"{kind} {point}")
            asked = [*ours, baseline] if point in baseline_points else ours
            name = f"{kind}-{point}"
            found: dict[str, list[dict[str, Any]]] = {}
            for repeat in range(repeats(plan, point if kind == "candidates" else 0)):
                for row in asked:
                    reply = pool.score(row, name, repeat)
                    if reply is not None:
                        found.setdefault(row.name, []).append(reply)
            for row_name, replies in found.items():
                grids[kind].append(
                    {
                        "row": row_name,
                        "point": point,
                        "pairs": point if kind == "candidates" else plan.length_pairs,
                        "cpu": statistics.median(reply["cpu"] for reply in replies),
                    }
                )
    return grids


def measure_peaks(pool: Pool, times: int) -> None:
    for row in rows.PEAKS:
        if row.settings["dtype"] == "bfloat16" and not machine.has_bfloat16():
            pool.of(row).error = "the processor has no bfloat16 instructions"
        for _ in range(times):
            pool.score(row, "warm-up", 0, count=1, warm_up=0)
        pool.stop(row)


def row_record(row: Row, measured: Measured, baseline: Measured) -> dict[str, Any]:
    """One row of the JSON file: times as they were measured, and the agreement with float32."""
    record: dict[str, Any] = {**asdict(row), "error": measured.error, **measured.about}
    record["start"] = measured.start
    record["memory_mb"] = measured.memory_mb
    record["runs"] = {}
    for workload in workloads.SHAPES:
        if workload in measured.cpu:
            record["runs"][workload] = {
                "index": measured.indices[workload],
                "cpu": measured.cpu[workload],
                "wall": measured.wall[workload],
            }
    reference, other = [], []
    for workload in workloads.SHAPES:
        expected = dict(
            zip(baseline.indices.get(workload, []), baseline.scores.get(workload, []), strict=True)
        )
        indices = measured.indices.get(workload, [])
        for index, scores in zip(indices, measured.scores.get(workload, []), strict=True):
            if index in expected:
                reference.append(expected[index])
                other.append(scores)
    if other:
        is_probability = row.name in rows.PROBABILITIES
        record["agreement"] = agreement.compare(reference, other, probability=is_probability)
    return record


def failed(result: dict[str, Any]) -> dict[str, str]:
    """Why rows failed that need no other environment: the model, the baseline and our engines."""
    return {
        row["name"]: row["error"]
        for row in result["rows"]
        if row["error"] and row["environment"] == environments.OURS
    }


def select(names: Sequence[str], found: list[Row]) -> list[Row]:
    """Rows whose name contains one of ``names``; all if there are none."""
    return [row for row in found if not names or any(name in row.name for name in names)]


def measure(
    plan: Plan,
    *,
    model: Path,
    data: Sequence[Path] = (),
    threads: int = 1,
    only: Sequence[str] = (),
    out: Path = OUT,
    count: int = COUNT,
    baseline: Row = rows.BASELINE,
    ours: Sequence[Row] = tuple(rows.OURS),
    loops: Sequence[Row] = tuple(row for found in rows.LOOPS.values() for row in found),
    peers: Sequence[Row] = tuple(rows.PEERS),
    peaks: bool = True,
) -> dict[str, Any]:
    """Measure everything and write speed.json."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = workloads.load_tokenizer(model)
    requests = make_requests(plan, tokenizer, data, count)
    requests_folder = out / "requests"
    requests_folder.mkdir(exist_ok=True)
    for name, found in requests.items():
        texts = [[request.query, request.passages] for request in found]
        (requests_folder / f"{name}.json").write_text(json.dumps(texts))
    often = [baseline, *select(only, [row for row in ours if row is not rows.TORCH])]
    often += select(only, [row for row in loops if row.settings["runtime"].startswith("openvino")])
    sometimes = select(only, [row for row in (*ours, *loops, *peers) if row not in often])
    config = json.loads((model / "config.json").read_text())
    state = machine.describe()
    with Pool(model, out / "scratch", threads, requests_folder) as pool:
        measure_rounds(pool, plan, often, sometimes, started)
        if peaks:
            measure_peaks(pool, 3)
        grid_rows = [row for row in often if row.group == "ours"]
        if plan.baseline_candidates:
            grid_rows += [row for row in often if row.settings.get("budget") == GRID_BUDGET]
        grids = measure_grids(pool, plan, grid_rows, baseline)
        measure_starts(pool, [row for row in often if row.group != "loop"], 3)
        records = [
            row_record(row, pool.of(row), pool.of(baseline))
            for row in [*often, *sometimes]
            if row.name in pool.measured
        ]
        peak_rates = {
            row.settings["dtype"]: max(scores[0] for scores in pool.of(row).scores["warm-up"])
            if "warm-up" in pool.of(row).scores
            else pool.of(row).error
            for row in (rows.PEAKS if peaks else ())
        }
    described = {}
    for name in workloads.SHAPES:
        tokens = workloads.lengths(tokenizer, requests[name], workloads.MAX_LENGTH)
        flat = [length for found in tokens for length in found]
        described[name] = {
            "pairs": count,
            "mean_tokens": statistics.fmean(flat),
            "shortest": min(flat),
            "longest": max(flat),
            "flop": flop_per_pair(config, flat),
        }
    result = {
        "machine": state,
        "threads": threads,
        "minutes": (time.monotonic() - started) / 60,
        "data": [folder.name for folder in data],
        "workloads": described,
        "rows": records,
        "peaks": peak_rates,
        "grids": grids,
    }
    (out / "speed.json").write_text(json.dumps(result, indent=1))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--full", action="store_true", help="larger grids and more rounds, about an hour"
    )
    parser.add_argument("--quick", action="store_true", help="only check that everything runs")
    parser.add_argument(
        "--collections",
        type=Path,
        nargs="+",
        default=[],
        help="folders of one or two collections, instead of Python's language reference",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each engine")
    parser.add_argument(
        "--only", nargs="+", default=[], help="only rows whose name contains one of these"
    )
    parser.add_argument("--model", type=Path, help="a model folder with onnx/model.onnx")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of speed.json")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL if arguments.full else SHORT
    result = measure(
        plan,
        model=arguments.model or make_model.ensure(),
        data=arguments.collections,
        threads=arguments.threads,
        only=arguments.only,
        out=arguments.out,
        count=10 if arguments.quick else COUNT,
    )
    log(f"written: {arguments.out / 'speed.json'}")
    errors = failed(result)
    for name, error in errors.items():
        print(f"{name} was not measured: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

"""Compares the CPU time of the scorer ``embedded`` with that of another checkout.

    git worktree add ../before COMMIT
    python -m benchmarks.speed.embedded --against ../before

Scores 100 passages of 80 tokens. Each checkout runs in its own processes with the packages of this
environment, and they alternate. Passages are new in every round, so that no cache helps.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path

from benchmarks.speed import agreement, make_model, results, workloads
from benchmarks.speed.driver import ROOT, Measured, Pool, Row

PASSAGES = 100
TOKENS = 80  # with the two special tokens
ROUNDS = 7


def requests(folder: Path, count: int) -> list[list[object]]:
    tokenizer = workloads.load_tokenizer(folder)
    found: list[list[object]] = []
    for number in range(count):
        # A pair of a query with q tokens and a passage with p has q + p + 3.
        query = workloads.of_length(tokenizer, 32, 1, seed=number).query
        tokens = len(tokenizer.encode(query, add_special_tokens=False).ids)
        request = workloads.of_length(
            tokenizer, tokens + TOKENS - 2 + workloads.SPECIAL, PASSAGES, seed=number
        )
        found.append([request.query, request.passages])
    return found


def rows(against: Path) -> tuple[Row, list[Row]]:
    """The other checkout's row, and those of this one."""
    here = str(ROOT / "src")
    old = Row("before", "Embedded", "baseline", path=str(against / "src"))
    new = [
        Row(f"{backend}, {precision}", "Embedded", "ours", settings=settings, path=here)
        for backend in ("openvino", "onnx")
        for precision in ("auto", "exact")
        for settings in ({"backend": backend, "precision": precision},)
    ]
    return old, new


def line(row: Row, measured: Measured, before: Measured) -> tuple[list[str], float, float]:
    """Cells, ratio of CPU time, and largest difference of scores."""
    if measured.error:
        return [row.name, "", "", "", "", measured.error], math.nan, math.nan
    found = [new / old for new, old in zip(measured.cpu["A"], before.cpu["A"], strict=True)]
    compared = agreement.compare(before.scores["A"], measured.scores["A"], probability=False)
    ratio = statistics.median(found)
    cells = [
        row.name,
        f"{statistics.median(measured.cpu['A']):.2f}",
        f"{ratio:.2f}",
        f"{compared['max']:.1e}",
        f"{compared['overlap']:.3f}",
        f"{measured.memory_mb:.0f} MB",
    ]
    return cells, ratio, compared["max"]


def main() -> int:
    parser = results.arguments(__doc__, backend=False)
    parser.add_argument("--against", type=Path, required=True, help="a checkout of another commit")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="the table has medians over them"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of the scorer")
    arguments = parser.parse_args()
    if not (arguments.against / "src" / "secondpass").is_dir():
        parser.error(f"{arguments.against} is not a checkout of this project")
    folder = arguments.model or make_model.ensure()
    old, new = rows(arguments.against.resolve())
    made = arguments.out / "embedded-requests"
    made.mkdir(parents=True, exist_ok=True)
    texts = requests(folder, arguments.rounds + 2)
    (made / "A.json").write_text(json.dumps(texts[: arguments.rounds]))
    (made / "warm-up.json").write_text(json.dumps(texts[arguments.rounds :]))
    with Pool(folder, arguments.out / "scratch", arguments.threads, made) as pool:
        for number in range(arguments.rounds):
            for row in (old, *new) if number % 2 == 0 else (*reversed(new), old):
                pool.score(row, "A", number)
        if error := pool.of(old).error:
            print(f"{arguments.against}: {error}", file=sys.stderr)
            return 1
        found = {row.name: line(row, pool.of(row), pool.of(old)) for row in (old, *new)}
    targets = []
    for name, share, allowed in (("openvino, auto", 0.55, 5e-3), ("openvino, exact", 0.75, 1e-3)):
        _, ratio, difference = found[name]
        what = f"`embedded`, {name}"
        targets.append(results.target(f"{what}, CPU time / before", share, ratio, at_least=False))
        targets.append(results.target(f"{what}, difference", allowed, difference, at_least=False))
    results.write(
        "embedded",
        "The scorer `embedded`",
        f"`benchmarks/speed/embedded.py`: {PASSAGES} passages of {TOKENS} tokens, medians of "
        f"{arguments.rounds} rounds; `before` is {arguments.against.name}.",
        ["embedded", "CPU s", "ratio", "largest difference", "top-10 overlap", "peak memory"],
        [cells for cells, _, _ in found.values()],
        targets,
        arguments.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

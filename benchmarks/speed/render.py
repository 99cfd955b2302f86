"""Writes tables and plots of the speed benchmarks from the JSON files of ``build/bench-speed``.

    python -m benchmarks.speed.render           # build/bench-speed/report.md and its plots
    python -m benchmarks.speed.render --docs    # also docs/data/speed.md and docs/speed-*.svg

Nothing is measured here. In ``docs/data/speed.md``, only the text between two comments is
replaced.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.speed import plots
from benchmarks.speed.driver import ROOT
from benchmarks.speed.summary import BASELINE, Record, Speed, median, rate

FOLDER = ROOT / "build" / "bench-speed"
PAGE = ROOT / "docs" / "data" / "speed.md"
BEGIN = "<!-- begin: written by `python -m benchmarks.speed.render --docs` -->"
END = "<!-- end -->"
AUTO, EXACT, EXACT_OPENVINO = (
    "secondpass, auto",
    "secondpass, exact, onnx",
    "secondpass, exact, openvino",
)
NOT_MEASURED = "not measured"
OTHERS = ("concurrency", "deadlines", "caches")
"""Smaller benchmarks, which write a table and targets."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns after the first are aligned to the right."""
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of texts, aligned to the left; ``|`` within cells is escaped."""
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def number(value: float, digits: int = 2) -> str:
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


def engines_table(speed: Speed) -> str:
    header = ["100 candidates", "A, pairs per CPU s", "ratio", "pairs per s"]
    header += ["B, pairs per CPU s", "ratio", "pairs per s", "peak MB", "start s", "runs"]
    lines = []
    shown = [row for row in speed.rows if row["group"] != "loop"]
    for runtime in ("openvino", "openvino-float32", "onnxruntime"):
        names = {speed.best_loop(workload, runtime) for workload in speed.workloads}
        shown += [row for row in speed.loops(runtime) if row["name"] in names]
    shown.sort(key=lambda row: -_order(speed, row))
    for row in shown:
        if not row["runs"]:
            continue
        cells = [row["name"]]
        for workload, described in speed.workloads.items():
            pairs = described["pairs"]
            cells.append(number(rate(row, workload, pairs), 1))
            cells.append(number(speed.ratio(row["name"], workload)))
            cells.append(number(rate(row, workload, pairs, "wall"), 1))
        count = max(len(run["cpu"]) for run in row["runs"].values())
        cells += [number(row["memory_mb"], 0), number(median(row["start"])), str(count)]
        lines.append(cells)
    return table(header, lines)


def _order(speed: Speed, row: Record) -> float:
    found = [speed.ratio(row["name"], workload) for workload in speed.workloads]
    return sum(value for value in found if not math.isnan(value))


def failed_table(speed: Speed) -> str:
    failed = [row for row in speed.rows if row["error"]]
    if not failed:
        return "All engines were installed and ran."
    return text_table(["not measured", "reason"], [[row["name"], row["error"]] for row in failed])


def reports_table(speed: Speed) -> str:
    """The engines that secondpass reports."""
    names = ("backend", "precision", "threads", "batch_rule", "reason")
    lines = [
        [row["name"], *(str(engine.get(name, "")) for name in names)]
        for row in speed.rows
        for engine in row.get("engines") or []
    ]
    if not lines:
        return "The reports name no engines."
    return text_table(
        ["reported by", "backend", "precision", "threads", "batches", "reason"], lines
    )


def agreement_table(speed: Speed) -> str:
    header = ["scores against float32 torch", "pairs", "largest difference", "mean difference"]
    header += ["Kendall tau", "top-10 overlap"]
    lines = []
    for row in speed.rows:
        found = row.get("agreement")
        if not found or row["name"] == BASELINE or row["group"] == "loop":
            continue
        cells = [row["name"], str(found["pairs"]), f"{found['max']:.1e}", f"{found['mean']:.1e}"]
        lines.append([*cells, number(found["tau"], 4), number(found["overlap"], 3)])
    deviation = next(
        (row["agreement"]["deviation"] for row in speed.rows if row.get("agreement")), math.nan
    )
    return table(header, lines) + (
        f"\n\nThe standard deviation of the scores is {number(deviation)}."
    )


def loops_table(speed: Speed) -> str:
    header = ["hand-written loop: pairs per CPU s"]
    budgets = sorted({row["settings"]["budget"] for row in speed.rows if row["group"] == "loop"})
    header += [
        f"{workload}, {budget:,} tokens" for workload in speed.workloads for budget in budgets
    ]
    lines = []
    for runtime in ("openvino", "openvino-float32", "onnxruntime"):
        found = {row["settings"]["budget"]: row for row in speed.loops(runtime)}
        if not found:
            continue
        cells = [runtime]
        for workload, described in speed.workloads.items():
            for budget in budgets:
                pairs = described["pairs"]
                value = rate(found[budget], workload, pairs) if budget in found else math.nan
                cells.append(number(value, 1))
        lines.append(cells)
    return table(header, lines)


def roofline_table(speed: Speed) -> str:
    peaks = ", ".join(
        f"{dtype} {value / 1e9:,.0f} GFLOP/s" if isinstance(value, float) else f"{dtype}: {value}"
        for dtype, value in speed.data["peaks"].items()
    )
    names = [AUTO, EXACT, EXACT_OPENVINO, "secondpass, torch", BASELINE]
    names += ["sentence-transformers, bf16"]
    lines = []
    for name in names:
        row = speed.row(name)
        if row is None:
            continue
        shares = [speed.share_of_peak(row, workload) for workload in speed.workloads]
        lines.append([name, shares[0][1], *(number(100 * share, 0) + " %" for share, _ in shares)])
    header = ["share of the peak", "data type", *speed.workloads]
    works = " and ".join(
        f"{described['flop'] / 1e9:.2f} GFLOP ({name})"
        for name, described in speed.workloads.items()
    )
    return (
        f"Peak, by the product of two 2048 by 2048 matrices (the best of torch, numpy and "
        f"OpenVINO): {peaks}. "
        f"A pair takes {works} without padding; "
        "the time includes tokenising, the operations do not.\n\n" + table(header, lines)
    )


def grid_table(speed: Speed, kind: str, label: str) -> str:
    points = speed.data["grids"][kind]
    if not points:
        return f"{label}: {NOT_MEASURED}."
    names = list(dict.fromkeys(point["row"] for point in points))
    found = {(point["row"], point["point"]): point for point in points}
    lines = []
    for value in sorted({point["point"] for point in points}):
        cells = [f"{value:,}"]
        for name in names:
            point = found.get((name, value))
            cells.append(number(1000 * point["cpu"] / point["pairs"], 2) if point else "-")
        lines.append(cells)
    return table([f"{label}: CPU ms per pair", *names], lines)


def machine_list(speed: Speed) -> str:
    about = speed.data["machine"]
    lines = [
        f"- processor: {about['processor']} ({about['family']}), {about['cores']} cores, "
        f"{', '.join(about['flags']) or 'no vector flags known'}",
        f"- memory {about['memory_gb']} GB, {about['system']}, Python {about['python']}; "
        f"threads of each engine: {speed.data['threads']}",
        f"- {', '.join(f'{name} {value}' for name, value in about['versions'].items())}",
        f"- {about['date']}, load at the start {about['load'][0]}, "
        f"{speed.data['minutes']:.0f} minutes",
    ]
    if about["caps"]:
        lines.append(f"- capped: {', '.join(f'{k}={v}' for k, v in about['caps'].items())}")
    for name, described in speed.workloads.items():
        lines.append(
            f"- workload {name}: {described['pairs']} pairs per query, "
            f"{described['mean_tokens']:.0f} tokens per pair "
            f"({described['shortest']} to {described['longest']}), "
            f"from {', '.join(speed.data['data']) or 'the language reference of Python'}"
        )
    return "\n".join(lines)


def versions_table(speed: Speed) -> str:
    lines = [
        [row["name"], ", ".join(f"{name} {value}" for name, value in row["versions"].items())]
        for row in speed.rows
        if row.get("versions") and row["group"] == "peer"
    ]
    return text_table(["engine", "versions"], lines)


Target = tuple[str, str, float, bool]
"""What is measured, the target as text, the measured value, and whether it is reached."""


def speed_targets(speed: Speed) -> Iterator[Target]:
    auto, exact = speed.row(AUTO), speed.row(EXACT)
    engine: Record = {"backend": "openvino", "precision": "float32"}
    if auto is not None and auto.get("engines"):
        engine = auto["engines"][0]
    # Whatever auto has chosen: it should choose the faster runtime, and the faster precision.
    runtimes = ("openvino", "openvino-float32", "onnxruntime")
    for workload in speed.workloads:
        best = speed.best_loop(workload, *runtimes)
        value = speed.ratio(AUTO, workload, best) if best else math.nan
        text = f"`auto` / the best hand-written loop ({best or runtimes[0]}), {workload}"
        yield text, "≥ 0.97", value, value >= 0.97
    flags = set(speed.data["machine"]["flags"])
    limits = {"A": 4.1, "B": 4.1} if "amx_bf16" in flags else {"A": 2.6, "B": 3.3}
    if engine["precision"] == "bfloat16":
        for workload, limit in limits.items():
            value = speed.ratio(AUTO, workload)
            yield f"`auto` / sentence-transformers, {workload}", f"≥ {limit}", value, value >= limit
    for workload, limit in {"A": 1.45, "B": 1.6}.items():
        value = speed.ratio(EXACT, workload)
        text = f"`exact` on onnxruntime / sentence-transformers, {workload}"
        yield text, f"≥ {limit}", value, value >= limit
    if auto is not None:
        value = auto["agreement"]["overlap"]
        text = f"`auto`, top-10 overlap over {auto['agreement']['pairs']} pairs"
        yield text, "≥ 0.99", value, value >= 0.99
    for name in (EXACT, EXACT_OPENVINO):
        row = speed.row(name)
        if row is not None:
            value = row["agreement"]["max"]
            yield f"`{name}`, largest difference", "≤ 1e-4", value, value <= 1e-4
    for row in (auto, exact):
        if row is not None:
            value = row["memory_mb"]
            yield f"{row['name']}, peak memory in MB", "≤ 450", value, value <= 450
            value = median(row["start"])
            reached = value <= 0.6 and "torch" not in row["heavy"]
            imported = "torch is imported" if "torch" in row["heavy"] else "torch not imported"
            text = f"{row['name']}, process start to first score in s ({imported})"
            yield text, "≤ 0.6", value, reached


def other_targets(folder: Path) -> Iterator[Target]:
    """Targets that the smaller benchmarks wrote."""
    for name in OTHERS:
        path = folder / f"{name}.json"
        if path.is_file():
            for item in json.loads(path.read_text())["bars"]:
                yield item["what"], item["bar"], item["value"], item["reached"]


def targets_table(targets: Iterable[Target]) -> str:
    lines = []
    for what, wanted, value, reached in targets:
        shown = f"{value:.1e}" if 0 < abs(value) < 0.005 else number(value)
        verdict = NOT_MEASURED if math.isnan(value) else "yes" if reached else "**no**"
        lines.append([what, wanted, shown, verdict])
    return table(["target", "wanted", "measured", "reached"], lines)


def other_tables(folder: Path) -> Iterator[str]:
    for name in OTHERS:
        path = folder / f"{name}.json"
        if path.is_file():
            data = json.loads(path.read_text())
            yield f"### {data['title']}\n\n{data['text']}\n\n{data['table']}"


def sections(speed: Speed, folder: Path, images: str) -> str:
    """The tables as Markdown; ``images`` is put before the file names of the plots."""
    targets = [*speed_targets(speed), *other_targets(folder)]
    parts = [
        "### The machine and the workloads",
        machine_list(speed),
        "### Targets",
        targets_table(targets),
        "### All engines at 100 candidates",
        f"![Pairs per CPU second]({images}speed-engines.svg)",
        engines_table(speed),
        "Medians over the runs; `ratio` is the median of the ratios to sentence-transformers' "
        "default in the same round. `pairs per s` is wall-clock, `start` is from process start "
        "to first score.",
        failed_table(speed),
        reports_table(speed),
        "### Agreement",
        agreement_table(speed),
        "### Batches of the hand-written loop",
        loops_table(speed),
        "### Share of the machine's peak",
        roofline_table(speed),
        "### Cost against candidates and length",
        f"![CPU time against candidates]({images}speed-candidates.svg)",
        grid_table(speed, "candidates", "candidates of about 80 tokens"),
        f"![CPU time against length]({images}speed-length.svg)",
        grid_table(speed, "length", "tokens per pair"),
        *other_tables(folder),
        "### Versions of the other packages",
        versions_table(speed),
    ]
    return "\n\n".join(parts) + "\n"


def write_page(page: Path, text: str) -> None:
    """Replace the text between the two comments of the page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page}: the comments for the tables are missing")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the JSON files")
    parser.add_argument("--docs", action="store_true", help="write docs/data/speed.md as well")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    try:
        speed = Speed(json.loads((folder / "speed.json").read_text()))
    except OSError as error:
        print(f"{error}: run `make bench-speed` first", file=sys.stderr)
        return 1
    plots.draw(speed, folder)
    (folder / "report.md").write_text("# Speed\n\n" + sections(speed, folder, ""), encoding="utf-8")
    print(folder / "report.md")
    if arguments.docs:
        plots.draw(speed, PAGE.parents[1])
        write_page(PAGE, sections(speed, folder, "../"))
        print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Plots of the speed benchmarks as SVG files (matplotlib)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.speed.summary import Speed

OURS, OTHERS, LIGHT = "#1f6feb", "#8b949e", "#c9d1d9"
COLOURS = (OURS, "#d9730d", "#2a9d5c", "#8250df", "#8b949e", "#bf3989")
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "secondpass",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def figure(path: Path, width: float, height: float, columns: int = 1) -> Iterator[Any]:
    """Axes of a figure that is written to ``path`` (SVG or PNG), equal for equal data."""
    import matplotlib
    from matplotlib.figure import Figure

    kind = path.suffix.removeprefix(".")
    with matplotlib.rc_context(SETTINGS):
        drawn = Figure((width, height), layout="constrained")
        yield drawn.subplots(1, columns)
        metadata = {"Date": None, "Creator": None} if kind == "svg" else None
        drawn.savefig(path, format=kind, metadata=metadata, dpi=150)


def draw(speed: Speed, folder: Path) -> None:
    """Writes speed-engines.svg, speed-candidates.svg and speed-length.svg."""
    _engines(speed, folder / "speed-engines.svg")
    _grid(speed, "candidates", "candidates", folder / "speed-candidates.svg")
    _grid(speed, "length", "tokens per pair", folder / "speed-length.svg")


def _engines(speed: Speed, path: Path) -> None:
    names = [row["name"] for row in speed.rows if row["runs"] and row["group"] != "loop"]
    for workload in speed.workloads:
        best = speed.best_loop(workload, "openvino")
        if best is not None and best not in names:
            names.append(best)
    names.sort(key=lambda name: speed.ratio(name, next(iter(speed.workloads))))
    with figure(path, 7.2, 0.9 + 0.34 * len(names)) as axes:
        for shift, workload in enumerate(speed.workloads):
            values = [speed.ratio(name, workload) for name in names]
            places = [place + 0.2 - 0.4 * shift for place in range(len(names))]
            bars = axes.barh(places, values, 0.38, label=f"workload {workload}")
            for bar, name in zip(bars, names, strict=True):
                bar.set_color(OURS if name.startswith("secondpass") else OTHERS)
                bar.set_alpha(1.0 if shift == 0 else 0.55)
            axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7.5)
        axes.set_yticks(range(len(names)), names)
        axes.axvline(1.0, color=LIGHT, linewidth=1)
        axes.set_xlabel("pairs per CPU second, sentence-transformers = 1 (A above B)")


def _grid(speed: Speed, kind: str, label: str, path: Path) -> None:
    points = speed.data["grids"][kind]
    names = list(dict.fromkeys(point["row"] for point in points))
    with figure(path, 6.0, 3.4) as axes:
        for colour, name in zip(COLOURS, names, strict=False):
            found = sorted((p["point"], p["cpu"], p["pairs"]) for p in points if p["row"] == name)
            scale = 1.0 if kind == "candidates" else 1000.0
            values = [
                scale * cpu / (1 if kind == "candidates" else pairs) for _, cpu, pairs in found
            ]
            axes.plot(
                [point for point, _, _ in found], values, marker="o", label=name, color=colour
            )
        axes.set_xlabel(label)
        axes.set_ylabel("CPU s per query" if kind == "candidates" else "CPU ms per pair")
        axes.set_xscale("log", base=10 if kind == "candidates" else 2)
        axes.set_yscale("log")
        if kind == "length":
            values = sorted({point["point"] for point in points})
            axes.set_xticks(values, [str(value) for value in values])
            axes.minorticks_off()
        axes.grid(visible=True, color=LIGHT, linewidth=0.6)
        if names:
            axes.legend(frameon=False, fontsize=8)

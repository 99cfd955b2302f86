"""Prints results of the smaller speed benchmarks, and writes them for ``render``."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.driver import ROOT

FOLDER = ROOT / "build" / "bench-speed"


def cross_encoder(folder: Path, backend: str, **settings: Any) -> dict[str, Any]:
    """The method of a model with a random head, which known answers would doubt."""
    own = {"type": "cross_encoder", "model": str(folder), "backend": backend}
    return {**own, "known_answers": False, **settings}


def target(
    what: str, limit: float, value: float, *, at_least: bool, unit: str = ""
) -> dict[str, Any]:
    """A target with the measured value; the key ``bar`` holds the target as text."""
    reached = value >= limit if at_least else value <= limit
    sign = "≥" if at_least else "≤"
    text = f"{sign} {limit:g}{' ' + unit if unit else ''}"
    return {
        "what": what,
        "bar": text,
        "value": value,
        "reached": not math.isnan(value) and reached,
    }


def write(
    name: str,
    title: str,
    text: str,
    header: Sequence[str],
    lines: Iterable[Sequence[str]],
    targets: Sequence[dict[str, Any]],
    folder: Path = FOLDER,
) -> None:
    """Print a table with its targets, and write them to NAME.json in the folder."""
    shown = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * (len(header) - 1)}"]
    shown += [f"| {' | '.join(line)} |" for line in lines]
    table = "\n".join(shown)
    print(f"{table}\n")
    for item in targets:
        verdict = "reached" if item["reached"] else "not reached"
        print(f"{item['what']}: {item['value']:.3g} (target {item['bar']}): {verdict}")
    folder.mkdir(parents=True, exist_ok=True)
    data = {"title": title, "text": text, "table": table, "bars": list(targets)}
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1))


def arguments(description: str | None, *, backend: bool = True) -> argparse.ArgumentParser:
    """The options that the smaller benchmarks share; ``backend``: of the cross-encoder."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the JSON file")
    parser.add_argument("--model", type=Path, help="a model folder with onnx/model.onnx")
    if backend:
        text = "of the cross-encoder: auto, onnx, openvino or torch"
        parser.add_argument("--backend", default="auto", help=text)
    return parser

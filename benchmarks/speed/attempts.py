"""Measures rejected variants of the hand-written loop: other batches and reduced precision.

    python -m benchmarks.speed.attempts

Rates are relative to OpenVINO's default precision with sorted batches of at most 1,024 tokens. The
variants alternate on the same queries, and their scores are compared with float32. int8 is
onnxruntime's own dynamic quantisation of the weights and inputs of matrix products (needs the
package onnx).
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.speed import agreement, make_model, results, workloads
from benchmarks.speed.direct_loop import Loop, Rule, batches


def input_order(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Batches of ``size`` pairs, in input order."""
    for start in range(0, len(lengths), size):
        yield list(range(start, min(start + size, len(lengths))))


def by_length(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Batches of ``size`` pairs, longest first."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for start in range(0, len(order), size):
        yield order[start : start + size]


class Attempt(NamedTuple):
    name: str
    loop: str
    rule: Rule
    size: int


ATTEMPTS = (
    Attempt("OpenVINO, up to 1,024 tokens, by length", "openvino", batches, 1024),
    Attempt("OpenVINO, all pairs in one batch", "openvino", input_order, 100_000),
    Attempt("OpenVINO, batches of 32 in input order", "openvino", input_order, 32),
    Attempt("OpenVINO, batches of 32 by length", "openvino", by_length, 32),
    Attempt("OpenVINO, batches of 4 by length", "openvino", by_length, 4),
    Attempt("OpenVINO, one pair at a time", "openvino", by_length, 1),
    Attempt("onnxruntime float32, up to 512 tokens", "onnxruntime", batches, 512),
    Attempt("onnxruntime float32, batches of 32 by length", "onnxruntime", by_length, 32),
    Attempt("onnxruntime float32, batches of 4 by length", "onnxruntime", by_length, 4),
    Attempt("onnxruntime float32, one pair at a time", "onnxruntime", by_length, 1),
    Attempt("onnxruntime dynamic int8, up to 512 tokens", "int8", batches, 512),
    Attempt("onnxruntime dynamic int8, one pair at a time", "int8", by_length, 1),
)


def quantised(folder: Path, scratch: Path) -> Path | None:
    """The model with dynamic int8, or None if onnx is not installed."""
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError:
        return None
    scratch.mkdir(parents=True, exist_ok=True)
    path = scratch / "int8.onnx"
    logging.disable(logging.WARNING)
    quantize_dynamic(folder / "onnx" / "model.onnx", path, weight_type=QuantType.QInt8)
    logging.disable(logging.NOTSET)
    return path


def main() -> int:
    parser = results.arguments(__doc__, backend=False)
    parser.add_argument("--rounds", type=int, default=5, help="the table has medians over them")
    parser.add_argument("--candidates", type=int, default=100, help="per query")
    arguments = parser.parse_args()
    folder = arguments.model or make_model.ensure()
    tokenizer = workloads.load_tokenizer(folder)
    loops = {name: Loop(folder, name) for name in ("openvino", "onnxruntime")}
    if file := quantised(folder, arguments.out / "scratch"):
        loops["int8"] = Loop(folder, "onnxruntime", file=file)
    attempts = [attempt for attempt in ATTEMPTS if attempt.loop in loops]
    seconds: dict[tuple[str, str], list[float]] = {}
    scores: dict[str, list[list[float]]] = {}
    for name in workloads.SHAPES:
        requests = workloads.generated(
            tokenizer, name, arguments.rounds + 1, arguments.candidates, seed=21
        )
        for number, request in enumerate(requests):
            for attempt in attempts:
                started = time.process_time()
                found = loops[attempt.loop].score(
                    request.query, request.passages, attempt.size, attempt.rule
                )
                if number:  # the first query warms up
                    spent = time.process_time() - started
                    seconds.setdefault((attempt.name, name), []).append(spent)
                    scores.setdefault(attempt.name, []).append(found)
    reference = scores["onnxruntime float32, one pair at a time"]
    lines = []
    for attempt in attempts:
        cells = [attempt.name]
        for name in workloads.SHAPES:
            first = seconds[(attempts[0].name, name)]
            pairs = zip(first, seconds[(attempt.name, name)], strict=True)
            cells.append(f"{statistics.median(best / spent for best, spent in pairs):.2f}")
        compared = agreement.compare(reference, scores[attempt.name], probability=False)
        cells += [f"{compared['max']:.1e}", f"{compared['overlap']:.3f}"]
        lines.append(cells)
    results.write(
        "attempts",
        "Rejected variants",
        f"`benchmarks/speed/attempts.py`: pairs per CPU second relative to the first row, "
        f"medians of {arguments.rounds} rounds; differences are from float32.",
        ["hand-written loop, one thread", "A", "B", "largest difference", "top-10 overlap"],
        lines,
        [],
        arguments.out,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

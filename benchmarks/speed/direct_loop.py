"""The best hand-written loop: tokenizers and a runtime, without code of secondpass.

All pairs are tokenised, sorted by length and split into batches of at most a budget of tokens,
padding included. The engines of secondpass are compared with the best of several budgets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

BUDGETS = (512, 1024, 2048, 4096)


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices, longest pairs first, in batches of at most ``budget`` tokens or of one pair."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        yield order[start : start + size]
        start += size


class Loop:
    """A model file on a runtime.

    Args:
        folder: of the model, with tokenizer.json and onnx/model.onnx.
        runtime: ``openvino``, ``openvino-float32`` or ``onnxruntime``.
        threads: of the runtime.
        max_length: tokens of a pair, including special tokens.
    """

    def __init__(
        self,
        folder: Path,
        runtime: str,
        threads: int = 1,
        max_length: int = 512,
    ) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length, strategy="longest_first")
        path = str(folder / "onnx" / "model.onnx")
        if runtime == "onnxruntime":
            self._run = _onnxruntime(path, threads)
        else:
            self._run = _openvino(path, threads, exact=runtime == "openvino-float32")

    def score(self, query: str, passages: Sequence[str], budget: int) -> list[float]:
        """One score per passage."""
        import numpy as np

        pairs = self._tokenizer.encode_batch_fast([(query, passage) for passage in passages])
        lengths = [len(pair) for pair in pairs]
        scores = [0.0] * len(pairs)
        for indices in batches(lengths, budget):
            shape = (len(indices), max(lengths[index] for index in indices))
            ids, mask, types = (np.zeros(shape, np.int64) for _ in range(3))
            for row, index in enumerate(indices):
                pair, length = pairs[index], lengths[index]
                ids[row, :length] = pair.ids
                mask[row, :length] = 1
                types[row, :length] = pair.type_ids
            for index, score in zip(indices, self._run(ids, mask, types), strict=True):
                scores[index] = float(score[0])
        return scores


def _onnxruntime(path: str, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(ids: Any, mask: Any, types: Any) -> Any:
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return session.run(None, inputs)[0]

    return run


def _openvino(path: str, threads: int, *, exact: bool) -> Any:
    import openvino

    settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    if exact:
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    core = openvino.Core()
    request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()

    def run(ids: Any, mask: Any, types: Any) -> Any:
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return request.infer(inputs)[0]

    return run

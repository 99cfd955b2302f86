"""Converts cross-encoders to ONNX and OpenVINO."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from secondpass.errors import SecondPassError
from secondpass.exporting.agreement import ScoreAgreement
from secondpass.scorers.hub.model import first_line
from secondpass.scorers.runtimes.runtime import Backend, import_openvino, openvino_core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import CrossEncoder

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_OPSET = 17
"""Has layer normalization as one operation. onnxruntime 1.17 and OpenVINO 2024 read it."""


class ExportError(SecondPassError, RuntimeError):
    """A model cannot be exported, or its file ranks differently from the original.

    Attributes:
        agreements: as in :class:`Exported`; empty if none was measured.
    """

    def __init__(
        self, message: str, agreements: Mapping[str, ScoreAgreement] | None = None
    ) -> None:
        super().__init__(message)
        self.agreements: Mapping[str, ScoreAgreement] = dict(agreements or {})


def convert(
    encoder: CrossEncoder,
    path: Path,
    backend: Backend,
    *,
    sample: Sequence[tuple[str, str]],
    scratch: Path,
    int8: bool = False,
) -> None:
    """Write the ONNX file of a model, or for OpenVINO its ``.xml`` and ``.bin``.

    The encoder is in float32. It is traced with the sample: two (query, passage) pairs of different
    lengths. ``scratch`` is an existing folder.

    Raises:
        ExportError: the model cannot be converted.
        OSError: a file cannot be written.
    """
    import onnx

    path.parent.mkdir(parents=True)
    with TemporaryDirectory(dir=scratch) as folder:
        traced = Path(folder) / "model.onnx"
        try:
            _trace(encoder, traced, sample)
            model = onnx.load(str(traced))
        except Exception as error:
            raise ExportError(
                f"the model cannot be converted to ONNX: {first_line(error)}"
            ) from error
        if int8:
            quantize_weights(model)
        if backend == "onnx":
            save(model, path)
            return
        openvino = import_openvino()

        converted = Path(folder) / "converted.onnx"
        save(model, converted)
        # Not `openvino.convert_model`, which reports each use over the network.
        openvino.save_model(
            openvino_core().read_model(str(converted)), str(path), compress_to_fp16=False
        )


def _trace(encoder: CrossEncoder, path: Path, sample: Sequence[tuple[str, str]]) -> None:
    """Write the ONNX file of a model, with any number of pairs and of tokens."""
    import torch

    classifier: Any = encoder.model
    features = encoder.preprocess([*sample])
    names = [name for name in _INPUTS if name in features]

    class Logits(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.classifier = classifier

        def forward(self, *inputs: Any) -> Any:
            return self.classifier(**dict(zip(names, inputs, strict=True))).logits

    with torch.inference_mode():
        torch.onnx.export(
            Logits().eval(),
            tuple(features[name] for name in names),
            str(path),
            dynamo=False,  # runtimes recognise attention in the graphs of this exporter only
            opset_version=_OPSET,
            input_names=names,
            output_names=["logits"],
            dynamic_axes={
                **{name: {0: "batch", 1: "tokens"} for name in names},
                "logits": {0: "batch"},
            },
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress bars and warnings of loaders and exporters."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


_HIGHEST = 255


class Quantized(NamedTuple):
    """A matrix in eight bits: ``(values - zeros) * scales``, with one of both per row or column."""

    values: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zeros: NDArray[np.uint8]


def quantize(matrix: NDArray[np.float32], axis: int) -> Quantized:
    """Round a matrix to eight bits; the error is at most one scale, and 0 stays 0.

    With the axis 0 there is a scale per row, with 1 per column.
    """
    import numpy as np

    # Not symmetric around 0: columns often have one outlier, and the error is about half.
    low = np.minimum(matrix.min(axis=1 - axis), 0).astype(np.float64)
    high = np.maximum(matrix.max(axis=1 - axis), 0).astype(np.float64)
    scales = np.where(high > low, (high - low) / _HIGHEST, 1).astype(np.float32)
    zeros = np.rint(-low / scales)
    rounded = np.rint(matrix / np.expand_dims(scales, 1 - axis)) + np.expand_dims(zeros, 1 - axis)
    return Quantized(np.clip(rounded, 0, _HIGHEST).astype(np.uint8), scales, zeros.astype(np.uint8))


def quantize_weights(model: Any) -> int:
    """Quantize the weights of an ``onnx.ModelProto`` in place; returns their number.

    A weight that is also used in another way, or has a single output column, stays float32.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    uses: dict[str, list[tuple[Any, int]]] = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            uses.setdefault(name, []).append((node, position))
    nodes = []
    kept = []
    for tensor in list(graph.initializer):
        axis = _axis(tensor, uses.get(tensor.name, ()))
        if axis is None:
            kept.append(tensor)
            continue
        inputs = [f"{tensor.name}.{part}" for part in Quantized._fields]
        parts: Any = quantize(numpy_helper.to_array(tensor), axis)
        for name, part in zip(inputs, parts, strict=True):
            kept.append(numpy_helper.from_array(part, name))
        nodes.append(helper.make_node("DequantizeLinear", inputs, [tensor.name], axis=axis))
    del graph.initializer[:]
    graph.initializer.extend(kept)
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *rest])
    return len(nodes)


def save(model: Any, path: Path, largest: int = 1_900_000_000) -> None:
    """Write an ``onnx.ModelProto``; weights beyond what one file can hold go to ``NAME_data``."""
    import onnx

    apart = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > largest
    onnx.save_model(
        model,
        str(path),
        save_as_external_data=apart,
        location=f"{path.name}_data" if apart else None,
    )


def _axis(tensor: Any, uses: Sequence[tuple[Any, int]]) -> int | None:
    """The axis of the output columns of a weight; None if it is not one, or too small."""
    from onnx import TensorProto

    if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) != 2:
        return None
    axes = {_axis_of_use(node, position) for node, position in uses}
    axis = axes.pop() if len(axes) == 1 else None
    return None if axis is None or tensor.dims[axis] == 1 else axis


def _axis_of_use(node: Any, position: int) -> int | None:
    if node.op_type == "MatMul" and position == 1:
        return 1
    if node.op_type == "Gemm" and position == 1:
        transposed = any(part.name == "transB" and part.i for part in node.attribute)
        return 0 if transposed else 1
    # The word embeddings. Those of positions and types are small.
    if node.op_type == "Gather" and position == 0 and node.input[1] == "input_ids":
        return 0
    return None

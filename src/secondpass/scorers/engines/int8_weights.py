"""Stores the weights of an ONNX file as eight-bit integers; activations are not quantized.

Each weight of a matrix product gets a float32 scale and a zero point per output column, and the
word embeddings one per word; an operation ``DequantizeLinear`` computes the weights again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HIGHEST = 255


class Quantized(NamedTuple):
    """A matrix in eight bits: ``(values - zeros) * scales``, along an axis.

    Attributes:
        values: the shape of the matrix.
        scales, zeros: one per row or column.
    """

    values: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zeros: NDArray[np.uint8]


def quantize(matrix: NDArray[np.float32], axis: int) -> Quantized:
    """Round a matrix to eight bits; the error is at most one scale, and 0 stays 0.

    Args:
        matrix: shape (rows, columns).
        axis: 0 for a scale per row, 1 for a scale per column.
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
    """Quantize the weights of an ``onnx.ModelProto`` in place.

    A weight that is also used in another way, or has a single output column, stays float32.

    Returns:
        The number of quantized weights.
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
    """Write an ``onnx.ModelProto``; weights beyond what one file can hold go to ``NAME_data``.

    Args:
        model: what to write.
        path: the ``.onnx`` file.
        largest: bytes of a file; the format's limit is 2 GB.
    """
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

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from secondpass.exporting.conversion import Quantized, quantize, quantize_weights, save


def restored(quantized: Quantized, axis: int):
    scales, zeros = (np.expand_dims(part, 1 - axis) for part in quantized[1:])
    return (quantized.values.astype(np.float64) - zeros) * scales


@pytest.mark.parametrize("axis", [0, 1])
def test_the_error_is_at_most_a_scale(axis):
    matrix = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
    matrix[3, 4], matrix[5] = 40, 0
    quantized = quantize(matrix, axis)
    assert quantized.values.dtype == quantized.zeros.dtype == np.uint8
    assert quantized.scales.shape == quantized.zeros.shape == (matrix.shape[axis],)
    errors = np.abs(restored(quantized, axis) - matrix)
    assert (errors <= np.expand_dims(quantized.scales, 1 - axis)).all()
    assert (restored(quantized, axis)[5] == 0).all()


def model_of(weights):
    """Looks words up, multiplies them by a weight in three ways, and by a shared one."""
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "weight"], ["y"]),
        helper.make_node("Gemm", ["y", "gemm"], ["z"], transB=1),
        helper.make_node("Add", ["z", "added"], ["sum"]),
        helper.make_node("MatMul", ["sum", "added"], ["product"]),
        helper.make_node("MatMul", ["product", "head"], ["logits"]),
    ]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 1])]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "model", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model():
    chance = np.random.default_rng(0)
    shapes = {"words": (50, 8), "weight": (8, 8), "gemm": (8, 8), "added": (8, 8), "head": (8, 1)}
    return model_of(
        {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    )


def run(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    return session.run(None, {"input_ids": np.arange(8)})[0]


def test_products_and_words_are_quantized_and_nothing_else(model, tmp_path):
    save(model, tmp_path / "before.onnx")
    assert quantize_weights(model) == 3
    onnx.checker.check_model(model)
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert {name for name, kind in kinds.items() if kind == TensorProto.UINT8} == {
        f"{name}.{part}" for name in ("words", "weight", "gemm") for part in ("values", "zeros")
    }
    assert kinds["head"] == kinds["added"] == TensorProto.FLOAT
    save(model, tmp_path / "after.onnx")
    before, after = run(tmp_path / "before.onnx"), run(tmp_path / "after.onnx")
    assert np.abs(after - before).max() < 0.05 * before.std()
    assert (after != before).any()


def test_large_weights_are_written_apart(model, tmp_path):
    save(model, tmp_path / "one.onnx")
    model.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.ones((50, 8), dtype=np.float32), "words")
    )
    save(model, tmp_path / "model.onnx", largest=1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.onnx",
        "model.onnx_data",
        "one.onnx",
    ]
    assert (tmp_path / "model.onnx_data").stat().st_size == 50 * 8 * 4
    assert np.isfinite(run(tmp_path / "model.onnx")).all()

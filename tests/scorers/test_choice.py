"""What runs a cross-encoder, and what is said if nothing can."""

import contextlib
import gc
import json
import shutil
import sys
import weakref

import pytest

from checkpoint_folders import edit
from secondpass import ConfigurationError, MissingExtraError, ModelLoadError, Reranker
from secondpass.scorers import choice
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.embedding import encoder
from secondpass.scorers.runtimes import runtime as runtimes
from tiny_models import write_classifier, write_onnx

DOCUMENTS = ["the dog ran", "the cat sat on the mat", "cat food", "a", "food on the mat " * 30]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("plain") / "classifier")


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


@pytest.fixture(autouse=True)
def on(monkeypatch):
    """Sets what processor this is; at first one with AVX-512."""

    def on(instructions):
        monkeypatch.setattr(runtimes, "instruction_set", lambda: instructions)

    on("AVX-512")
    return on


def engine(path, **settings):
    scorer = CrossEncoderScorer(str(path), **settings)
    scorer.warm_up()
    info = scorer.engine
    scorer.close()  # or the next one with these settings would share the engine
    return info


@pytest.fixture
def without(monkeypatch):
    def hide(*packages):
        for package in packages:
            monkeypatch.setitem(sys.modules, package, None)

    return hide


@pytest.mark.parametrize(
    ("hidden", "settings", "backend", "reason"),
    [
        ((), {}, "openvino", "openvino is installed"),
        (("openvino",), {}, "onnx", "onnxruntime is installed and openvino is not"),
        (("onnxruntime",), {}, "openvino", "openvino is installed and onnxruntime is not"),
        (("openvino", "onnxruntime"), {}, "torch", "neither openvino nor onnxruntime is installed"),
        ((), {"prompt": "find"}, "torch", "only torch supports prompt"),
        ((), {"family": "classifier"}, "torch", "only torch supports family"),
        ((), {"backend": "onnx"}, "onnx", "the backend is set"),
        ((), {"backend": "torch"}, "torch", "the backend is set"),
        ((), {"file": "onnx/model.onnx"}, "openvino", "openvino is installed"),
    ],
)
def test_backends(folder, without, hidden, settings, backend, reason):
    without(*hidden)
    info = engine(folder, precision="exact", **settings)
    assert (info.backend, info.precision) == (backend, "float32")
    assert info.reason.startswith(reason)


OPENVINO, ONNX, NEITHER = ("openvino",), ("onnxruntime",), ()
SLOWER = "openvino is installed and onnxruntime is not, which is faster on this processor"


@pytest.mark.parametrize(
    ("instructions", "hidden", "backend", "reason"),
    [
        ("bfloat16", NEITHER, "openvino", "the speed of onnxruntime on this processor is the same"),
        ("AVX-512", NEITHER, "openvino", "the speed of onnxruntime on this processor is the same"),
        ("AVX2", NEITHER, "onnx", "onnxruntime is faster than openvino on this processor, which"),
        ("AVX2", ONNX, "openvino", SLOWER),
        ("AVX2", OPENVINO, "onnx", "onnxruntime is installed and openvino is not"),
        ("other", NEITHER, "openvino", "the speed of onnxruntime on this processor was not"),
    ],
)
def test_auto_takes_the_faster_by_the_processor(
    folder, without, on, instructions, hidden, backend, reason
):
    on(instructions)
    without(*hidden)
    info = engine(folder, precision="exact")
    assert info.backend == backend
    assert reason in info.reason
    assert encoder.choose_backend("auto", "exact") == (backend, info.reason)


def test_bfloat16_is_why_openvino_is_faster(on):
    on("bfloat16")
    reason = "openvino is faster than onnxruntime on this processor, by bfloat16"
    assert runtimes.why_chosen("openvino", "bfloat16") == reason


def test_a_file_decides_before_the_speed(copy, on):
    on("AVX2")
    openvino = pytest.importorskip("openvino")
    path = copy / "onnx" / "model.onnx"
    model = openvino.convert_model(path)
    (copy / "openvino").mkdir()
    openvino.save_model(model, copy / "openvino" / "openvino_model.xml", compress_to_fp16=False)
    assert engine(copy).backend == "onnx"
    path.unlink()
    info = engine(copy)
    assert (info.backend, info.reason) == ("openvino", "the model has a file for openvino only")


def test_a_named_file_is_never_replaced_by_torch(folder, copy, without, monkeypatch):
    with pytest.raises(ConfigurationError, match="file: cannot be set with torch"):
        CrossEncoderScorer(folder, file="onnx/model.onnx", device="cuda:0")
    with monkeypatch.context() as patched:
        patched.setattr(choice, "_has_accelerator", lambda: True)
        assert engine(folder, file="onnx/model.onnx").backend == "openvino"
    edit(copy, "sentence_bert_config.json", do_lower_case=True)
    with pytest.raises(ModelLoadError, match="lower-cases"):
        engine(copy, file="onnx/model.onnx")
    without("openvino")
    with pytest.raises(MissingExtraError, match="openvino"):
        engine(folder, file="openvino/openvino_model.xml")
    without("onnxruntime")
    with pytest.raises(MissingExtraError, match="openvino"):
        engine(folder, file="onnx/model.onnx")


def test_a_setting_for_torch_without_torch(folder, without):
    without("sentence_transformers", "openvino")
    told = "precision checkpoint .only torch supports that; without that, onnxruntime may run it."
    with pytest.raises(MissingExtraError, match=told):
        Reranker({"type": "cross_encoder", "model": str(folder), "precision": "checkpoint"})
    without("onnxruntime")
    told = "precision checkpoint .only torch supports that. needs packages"
    with pytest.raises(MissingExtraError, match=told):
        Reranker({"type": "cross_encoder", "model": str(folder), "precision": "checkpoint"})


def test_no_file_beside_the_model(plain, without):
    assert engine(plain).reason == (
        "the model has no ONNX or OpenVINO file; `secondpass export` makes one"
    )
    with pytest.raises(ModelLoadError, match=r"no file for the backend 'onnx'.*secondpass export"):
        engine(plain, backend="onnx")
    without("sentence_transformers")
    with pytest.raises(ModelLoadError, match=r"export.*and sentence-transformers is not installed"):
        engine(plain)


def test_a_gpu_is_for_torch(folder, monkeypatch):
    monkeypatch.setattr(choice, "_has_accelerator", lambda: True)
    assert engine(folder, device="cpu").backend == "openvino"
    assert engine(folder).reason == "there is a GPU"
    with pytest.raises(ConfigurationError, match="device: the backend 'onnx' has no such setting"):
        CrossEncoderScorer(folder, backend="onnx", device="cuda:0")


@pytest.mark.parametrize(
    ("device", "meant"), [("gpu", "cuda"), ("GPU:1", "cuda:1"), ("CPU", "cpu"), ("metal", "mps")]
)
def test_a_device_by_another_name_is_refused_at_once(folder, device, meant):
    with pytest.raises(ConfigurationError, match=f"'{device}'; did you mean '{meant}'"):
        CrossEncoderScorer(folder, device=device)


def test_a_file_that_the_backend_cannot_read():
    with pytest.raises(ConfigurationError, match=r"backend, file: 'onnx' cannot read 'a/b\.xml'$"):
        CrossEncoderScorer("some/model", backend="onnx", file="a/b.xml")
    for backend in ("auto", "openvino"):
        CrossEncoderScorer("some/model", backend=backend, file="a/b.xml")
        CrossEncoderScorer("some/model", backend=backend, file="a/b.onnx")


@pytest.mark.parametrize(
    "settings",
    [
        {"prompt": "find"},
        {"prompt_name": "a"},
        {"model_kwargs": {"file_name": "onnx/model_O3.onnx"}},
        {"config_kwargs": {"x": 1}},
        {"tokenizer_kwargs": {"x": 1}},
        {"trust_remote_code": True},
        {"precision": "bfloat16"},
        {"precision": "checkpoint"},
    ],
)
@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_settings_that_only_torch_has(folder, backend, settings):
    with pytest.raises(ConfigurationError, match="only torch has") as caught:
        CrossEncoderScorer(folder, backend=backend, **settings)
    assert all(name in str(caught.value) for name in settings)


def choice_of(path):
    try:
        return engine(path).reason
    except ModelLoadError as error:  # torch finds more to object to in a model of this kind
        return str(error.__context__) + str(error)


def scores_of(path, backend):
    scorer = CrossEncoderScorer(str(path), backend=backend, precision="exact")
    scores = scorer.score_pairs("cat the mat", [*DOCUMENTS, "Cat", "dog ran " * 12])
    scorer.close()
    return scores


MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}
]
TASK = {"transformer_task": "sequence-classification"}


OWN_ARGUMENTS = {**TASK, "processing_kwargs": {"text": {"max_length": 20, "truncation": True}}}


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "q", "prompts": {"q": "x"}},
            "default prompt",
        ),
        ("sentence_bert_config.json", {"do_lower_case": True}, "lower-cases"),
        ("sentence_bert_config.json", {"config_kwargs": {"num_hidden_layers": 1}}, "config_kwargs"),
        ("sentence_bert_config.json", {"tokenizer_args": {"x": 1}}, "tokenizer_args"),
        ("sentence_bert_config.json", OWN_ARGUMENTS, "settings of its own"),
        ("tokenizer_config.json", {"do_lower_case": False}, "disagree"),
        ("tokenizer_config.json", {"strip_accents": False}, "disagree"),
        ("tokenizer_config.json", {"tokenize_chinese_chars": False}, "disagree"),
    ],
)
def test_models_for_torch(copy, name, changes, reason):
    edit(copy, name, **changes)
    for settings in ({"backend": "openvino"}, {"file": "onnx/model.onnx"}):
        with pytest.raises(ModelLoadError, match=reason) as caught:
            engine(copy, **settings)
        assert "torch runs it: leave out `backend` and `file`" in str(caught.value)
    assert reason in choice_of(copy)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sentence_bert_config.json", {**TASK, "max_seq_length": 16}),
        ("tokenizer_config.json", {"model_input_names": ["input_ids", "attention_mask"]}),
    ],
)
def test_settings_in_the_model_files(copy, name, changes):
    before = scores_of(copy, "onnx")
    edit(copy, "sentence_bert_config.json", **TASK)
    edit(copy, "config_sentence_transformers.json", model_type="CrossEncoder")
    (copy / "modules.json").write_text(json.dumps(MODULES))
    edit(copy, name, **changes)
    expected = scores_of(copy, "torch")
    assert before != pytest.approx(expected, abs=1e-2)
    assert scores_of(copy, "onnx") == pytest.approx(expected, abs=1e-4)


def test_a_model_in_a_folder_below(copy):
    below = copy / "0_Transformer"
    below.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.move(copy / name, below / name)
    edit(below, "sentence_bert_config.json", **TASK)
    edit(copy, "config_sentence_transformers.json", model_type="CrossEncoder")
    (copy / "modules.json").write_text(json.dumps([{**MODULES[0], "path": "0_Transformer"}]))
    assert engine(copy).backend == "torch"


def test_a_file_of_another_model(copy, tmp_path):
    other = write_onnx(write_classifier(tmp_path / "other", labels=3))
    shutil.copy(other / "onnx" / "model.onnx", copy / "onnx" / "model.onnx")
    for backend in ("onnx", "openvino"):
        with pytest.raises(ModelLoadError, match=r"cannot score pairs: .*2 x 3, not one score per"):
            engine(copy, backend=backend)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", r"tokenizer\.json"),
        ("config.json", "{", r"config\.json"),
        ("tokenizer.json", None, r"no tokenizer\.json"),
    ],
)
def test_broken_files(copy, name, content, message):
    (copy / name).unlink() if content is None else (copy / name).write_text(content)
    with pytest.raises(ModelLoadError, match=message):
        engine(copy, backend="onnx")


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [({"backend": "onnx"}, True), ({"file": "onnx/model.onnx"}, True), ({}, False)],
)
def test_the_setting_that_a_refusal_names_is_said_to_be_of_torch(copy, settings, is_told):
    edit(copy, "config.json", architectures=["Qwen2ForSequenceClassification"], model_type="qwen2")
    with pytest.raises(ModelLoadError, match="set `family: classifier`") as caught:
        engine(copy, **settings)
    assert ("Only torch has the setting `family`: leave out" in str(caught.value)) is is_told
    with pytest.raises(ConfigurationError) if is_told else contextlib.nullcontext():
        CrossEncoderScorer(str(copy), family="classifier", **settings)


def test_a_link_to_nothing_in_the_folder(copy):
    (copy / ".#config.json").symlink_to("nobody@nowhere")
    assert engine(copy, backend="onnx").backend == "onnx"


def test_the_key_of_scores_has_the_side_of_truncation(copy, tmp_path):
    cache = str(tmp_path / "scores.db")
    found = []
    for side in ("right", "left"):
        edit(copy, "tokenizer_config.json", truncation_side=side)
        for remembered in (cache, None):
            scorer = CrossEncoderScorer(str(copy), backend="onnx", score_cache=remembered)
            found += scorer.score_pairs("cat", ["mat " * 70 + "dog " * 70])
            scorer.close()
    assert found[0] == pytest.approx(found[1], abs=1e-5)
    assert found[2] == pytest.approx(found[3], abs=1e-5)
    assert found[0] != pytest.approx(found[2], abs=1e-3)


def test_a_model_that_failed_is_released(tmp_path, monkeypatch):
    made = []
    loaded = choice.TorchModel.__init__

    def load(self, *values, **settings):
        made.append(weakref.ref(self))
        loaded(self, *values, **settings)

    monkeypatch.setattr(choice.TorchModel, "__init__", load)
    scorer = CrossEncoderScorer(str(write_classifier(tmp_path / "two", labels=2)), backend="torch")
    with pytest.raises(ModelLoadError, match="2 labels") as caught:
        scorer.score_pairs("cat", DOCUMENTS)
    del caught
    gc.collect()
    assert [model() for model in made] == [None]


def test_int8_files_are_not_taken_unasked(copy):
    shutil.move(copy / "onnx" / "model.onnx", copy / "onnx" / "model_int8.onnx")
    assert engine(copy).backend == "torch"
    assert engine(copy, file="onnx/model_int8.onnx").backend == "openvino"
    with pytest.raises(ModelLoadError, match=r"no file 'onnx/none\.onnx'"):
        engine(copy, file="onnx/none.onnx")

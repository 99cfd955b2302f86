"""Model files that are exported from small random models, and what is refused."""

import json
from pathlib import Path

import pytest

from checkpoint_folders import bare, edit, modular
from damaged_folders import write_damaged
from overlap_model import write_overlap
from remembered_trace import remember
from rotation import rotating
from secondpass.errors import InputError, ModelLoadError
from secondpass.exporting import export as exporting
from secondpass.exporting.conversion import ExportError
from secondpass.exporting.export import export
from secondpass.scorers.checks import known_answers
from tiny_architectures import scores_of, word_pairs, write_architecture
from tiny_models import write_classifier

DOUBT = known_answers.doubt  # as tests find it, it has no doubts: see conftest.py
PAIRS = word_pairs(queries=2)


@pytest.fixture(autouse=True)
def _remembered_trace(monkeypatch):
    remember(monkeypatch)


@pytest.fixture
def model(tmp_path):
    return write_architecture(tmp_path / "model", "bert")


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_beside_a_local_model_only_the_new_files_are_added(model):
    before = files(model)
    config = (model / "config.json").read_bytes()
    exported = export(str(model), pairs=PAIRS)
    assert files(model) - before == {"onnx", "onnx/model.onnx"}
    assert (exported.folder, exported.file) == (model, "onnx/model.onnx")
    assert exported.size == (model / "onnx/model.onnx").stat().st_size
    assert (model / "config.json").read_bytes() == config
    export(str(model), into=model, backend="openvino", pairs=PAIRS)
    added = {"openvino", "openvino/openvino_model.xml", "openvino/openvino_model.bin"}
    assert files(model) - before - {"onnx", "onnx/model.onnx"} == added


def test_a_missing_tokenizer_file_is_added(tmp_path):
    model = write_classifier(tmp_path / "model")
    (model / "tokenizer.json").unlink()
    export(str(model), pairs=PAIRS)
    assert (model / "tokenizer.json").is_file()


def test_a_folder_of_its_own_is_complete(model, tmp_path):
    into = tmp_path / "new" / "exported"
    for backend in ("onnx", "openvino"):
        export(str(model), into=into, backend=backend, pairs=PAIRS)
    assert {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "onnx/model.onnx",
        "openvino/openvino_model.xml",
    } <= files(into)
    assert not any("safetensors" in name for name in files(into))
    expected = scores_of(model, "torch", PAIRS, device="cpu")
    assert scores_of(into, "onnx", PAIRS) == pytest.approx(expected, abs=2e-4)
    assert files(tmp_path) == {"new", "model"} | {
        f"{folder}/{name}" for folder in ("new", "model") for name in files(tmp_path / folder)
    }


def test_the_tokenizer_of_another_model_is_not_replaced(model, tmp_path):
    into, name = tmp_path / "new", "tokenizer_config.json"
    export(str(model), into=into, pairs=PAIRS)
    edit(into, name, own=True)
    message = r"tokenizer_config\.json: exists with other content; it is replaced with force=True"
    with pytest.raises(InputError, match=message):
        export(str(model), into=into, backend="openvino", pairs=PAIRS)
    assert json.loads((into / name).read_text())["own"]
    assert "openvino" not in files(into)
    export(str(model), into=into, backend="openvino", pairs=PAIRS, force=True)
    assert "own" not in json.loads((into / name).read_text())


def test_an_existing_file_is_replaced_only_by_force(model):
    export(str(model), pairs=PAIRS)
    (model / "onnx/model.onnx").write_bytes(b"old")
    (model / "onnx/model.onnx_data").write_bytes(b"old")
    with pytest.raises(InputError, match=r"model\.onnx: exists; it is replaced with force=True"):
        export(str(model), pairs=PAIRS)
    assert (model / "onnx/model.onnx").read_bytes() == b"old"
    export(str(model), pairs=PAIRS, force=True)
    assert (model / "onnx/model.onnx").stat().st_size > 1000
    assert not (model / "onnx/model.onnx_data").exists()


def test_a_file_that_ranks_differently_is_refused(model, tmp_path, monkeypatch):
    load = exporting._load

    def changed(name):
        original = load(name)
        run = original.run
        monkeypatch.setattr(original, "run", lambda pairs: [-score for score in run(pairs)])
        return original

    monkeypatch.setattr(exporting, "_load", changed)
    before = files(tmp_path)
    with pytest.raises(
        ExportError, match=r"refused: the top-10 overlap .* is 0\.\d+, below 0.98"
    ) as (error):
        export(str(model), pairs=PAIRS)
    assert error.value.agreements["float32"].overlap < 0.98
    assert error.value.agreements["float32"].tau < -0.9
    assert files(tmp_path) == before
    export(str(model), pairs=PAIRS, force=True)
    assert files(model) - before >= {"onnx/model.onnx"}


def test_the_original_is_asked_what_it_knows(tmp_path, monkeypatch):
    monkeypatch.setattr(known_answers, "doubt", DOUBT)
    right = write_overlap(tmp_path / "right")
    assert export(str(right), pairs=PAIRS).doubt is None
    random = write_damaged(tmp_path / "random", "everything random")
    doubt = export(str(random), pairs=PAIRS).doubt
    assert doubt.startswith("of six questions with an obvious answer, the model ranks ")
    inverted = write_damaged(tmp_path / "inverted", "head negated")
    before = files(inverted)
    with pytest.raises(ExportError, match=r"refused: .* mean the opposite.*nothing was written"):
        export(str(inverted), pairs=PAIRS)
    assert files(inverted) == before
    assert "mean the opposite" in export(str(inverted), pairs=PAIRS, force=True).doubt


@rotating(
    part=["TorchModel", "LightModel"], score=[float("nan"), float("inf")], force=[False, True]
)
def test_a_score_that_is_not_finite_is_refused(model, monkeypatch, part, score, force):
    whose = {"TorchModel": "the original's", "LightModel": "the new file's float32"}[part]
    original = getattr(exporting, part)

    class Broken(original):
        def run(self, pairs):
            scores = [*super().run(pairs)]
            # Not among the first ten of its query, so that the overlap is not concerned.
            return [score if value == min(scores) else value for value in scores]

    monkeypatch.setattr(exporting, part, Broken)
    before = files(model)
    with pytest.raises(
        ExportError, match=rf"refused: of {whose} 30 scores, NaN or infinite are \d+"
    ):
        export(str(model), pairs=PAIRS, force=force)
    assert files(model) == before


@pytest.mark.parametrize("step", ["convert", "_agreements", "move_into"])
def test_nothing_is_left_behind_by_an_interruption(model, tmp_path, monkeypatch, step):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(exporting, step, interrupted)
    before = files(tmp_path)
    for into in (None, tmp_path / "new" / "exported"):
        with pytest.raises(KeyboardInterrupt):
            export(str(model), into=into, pairs=PAIRS)
    assert files(tmp_path) == before


def default_prompt(folder):
    write_classifier(folder)
    from sentence_transformers import CrossEncoder

    encoder = CrossEncoder(str(folder), prompts={"web": "Search: "}, default_prompt_name="web")
    encoder.save_pretrained(str(folder))


def no_configuration(folder):
    folder.mkdir()
    (folder / "notes.txt").write_text("no model")


def damaged(folder):
    write_classifier(folder)
    (folder / "modules.json").write_text("[1]")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (damaged, "cannot be loaded: AttributeError"),
        (default_prompt, "has a default prompt, so that it cannot be exported"),
        (no_configuration, "has no config.json"),
        (modular, "is of the class ModernBertModel, which is no sequence classifier"),
        (bare, "fits no description of a reranker"),
    ],
)
def test_other_models_are_refused(tmp_path, write, message):
    write(tmp_path / "model")
    before = files(tmp_path)
    with pytest.raises(ModelLoadError, match=message):
        export(str(tmp_path / "model"), pairs=PAIRS)
    assert files(tmp_path) == before


def test_wrong_arguments(model, tmp_path):
    with pytest.raises(InputError, match="into: is needed, because 'some/model' is not a local"):
        export("some/model")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"into: .* is a file"):
        export(str(model), into=tmp_path / "file")
    with pytest.raises(InputError, match="pairs: no query has more than 10 passages"):
        export(str(model), pairs=PAIRS[:10])


def test_each_step_is_reported_and_loaders_are_silent(model, capfd):
    steps = []
    export(str(model), pairs=PAIRS, progress=lambda *step: steps.append(step))
    assert [(done, total) for _, done, total in steps] == [(step, 4) for step in range(5)]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["../../x", ""])
def test_names_of_chat_templates_that_are_no_file_names(model, tmp_path, name):
    template = "{% for one in messages %}{{ one.content[0].text }}{% endfor %}"
    templates = [{"name": "default", "template": template}, {"name": name, "template": "x"}]
    edit(model, "tokenizer_config.json", chat_template=templates)
    before = files(tmp_path)
    with pytest.raises(ExportError, match=r"has a chat template named .*: no file name"):
        export(str(model), into=tmp_path / "a" / "b" / "new", pairs=PAIRS)
    assert files(tmp_path) - before <= {"a", "a/b"}

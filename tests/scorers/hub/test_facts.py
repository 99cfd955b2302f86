"""What the files of a model say of it."""

import json

import pytest

from checkpoint_folders import edit, modular
from secondpass.errors import ModelLoadError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.hub.facts import read_facts
from secondpass.scorers.hub.model import HubModel
from static_models import write_static
from tiny_models import write_classifier, write_onnx


def test_the_files_of_a_folder(tmp_path):
    folder = modular(tmp_path / "model")
    facts = read_facts(HubModel(str(folder)), offline=True)
    assert facts.architecture == "ModernBertModel"
    assert [kind.rpartition(".")[2] for kind in facts.types][:2] == ["Transformer", "Pooling"]
    assert (facts.name, facts.own["model_type"], facts.auto_map) == ("model", "CrossEncoder", {})


def test_a_folder_without_them(tmp_path):
    assert read_facts(HubModel(str(tmp_path)), offline=True) is None
    assert read_facts(HubModel("no/such-model"), offline=True) is None


def test_names_in_the_cache_are_those_of_the_model(tmp_path):
    folder = tmp_path / "models--Qwen--Qwen3-Reranker-0.6B" / "snapshots" / "abc"
    write_classifier(folder)
    assert read_facts(HubModel(str(folder)), offline=True).name == "Qwen3-Reranker-0.6B"


def test_code_is_that_of_the_model_only(tmp_path):
    folder = write_classifier(tmp_path / "model")
    edit(folder, "config.json", auto_map={"AutoTokenizer": "t.T", "AutoModel": "m.M"})
    assert read_facts(HubModel(str(folder)), offline=True).auto_map == {"AutoModel": "m.M"}


@pytest.mark.parametrize("content", ["{", "[]"])
def test_files_of_another_form(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json (is no JSON|holds a list)"):
        read_facts(HubModel(str(tmp_path)), offline=True)
    (tmp_path / "config.json").write_text(json.dumps({}))
    assert read_facts(HubModel(str(tmp_path)), offline=True).architecture == ""


def module(path, kind="StaticEmbedding"):
    def change(folder):
        modules = [{"idx": 0, "name": "0", "path": path, "type": f"sentence_transformers.{kind}"}]
        (folder / "modules.json").write_text(json.dumps(modules))

    return change


def router(folder):
    module("", "Router")(folder)
    (folder / "router_config.json").write_text(json.dumps({"types": {"../other": "x.Dense"}}))


def index(name):
    def change(folder):
        content = {"weight_map": {"a": "../other/model.safetensors"}}
        (folder / name).write_text(json.dumps(content))

    return change


OUTSIDE = {
    "a module above": module("../other"),
    "a module further above": module("../../../../etc"),
    "a module above by a detour": module("a/../../other"),
    "a module elsewhere": module("/etc"),
    "another kind of module": module("../other", "Transformer"),
    "a part of a router": router,
    "weights": index("model.safetensors.index.json"),
    "weights in the old form": index("pytorch_model.bin.index.json"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_model_names_no_files_outside_of_its_folder(tmp_path, name):
    write_static(tmp_path / "other")
    folder = write_static(tmp_path / "model")
    OUTSIDE[name](folder)
    with pytest.raises(ModelLoadError, match=r"names '[^']*', which is not in its folder"):
        CrossEncoderScorer(str(folder), known_answers=False).warm_up()


def test_a_file_of_the_settings_is_within_the_model(tmp_path):
    write_onnx(write_classifier(tmp_path / "other"))
    folder = write_classifier(tmp_path / "model")
    scorer = CrossEncoderScorer(str(folder), file="../other/onnx/model.onnx")
    with pytest.raises(ModelLoadError, match="which is not in its folder"):
        scorer.warm_up()


@pytest.mark.parametrize("name", ["snapshots/main", "."])
def test_links_of_the_cache_are_followed(tmp_path, name):
    write_classifier(tmp_path / "blobs")
    folder = tmp_path / "cache" / name
    folder.mkdir(parents=True)
    for path in (tmp_path / "blobs").iterdir():
        (folder / path.name).symlink_to(path)
    assert read_facts(HubModel(str(folder)), offline=True).config


@pytest.mark.parametrize("content", ["{", "[1]", "3"])
def test_whether_a_damaged_model_takes_instructions_is_no_error(tmp_path, content):
    folder = write_classifier(tmp_path / "model")
    (folder / "modules.json").write_text(content)
    assert not CrossEncoderScorer(str(folder)).takes_instruction

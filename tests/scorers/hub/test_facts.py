"""What the files of a model say of it."""

import json

import pytest

from checkpoint_folders import edit, modular
from secondpass.scorers.hub.facts import read_facts
from secondpass.scorers.hub.model import HubModel
from tiny_models import write_classifier


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

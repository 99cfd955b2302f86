"""What ``doctor`` says of a model."""

import pytest

import family_models as families
from secondpass.scorers.engines.inspection import inspect_model
from secondpass.scorers.families import Family
from secondpass.settings import from_mapping, yaml_text
from tiny_models import write_classifier, write_late_interaction


def test_a_described_model(tmp_path):
    folder = families.write_causal_family(tmp_path / "mxbai-rerank-base-v2", "Qwen2")
    found = inspect_model(str(folder))
    assert (found["family"], found["verified"]) == ("mxbai-rerank-v2", "0.1.6")
    assert found["reasons"] == ["architectures Qwen2ForCausalLM", "the name mxbai-rerank-base-v2"]
    assert found["read_out"] == "the logit of '1' minus the logit of '0' at the last token"
    assert found["tokens"][0] == "<|im_start|>"
    assert isinstance(found["score"], float)
    assert "8,192 tokens" in found["cut"]
    assert "refused" not in found


def test_models_by_their_own_files(tmp_path):
    chat = inspect_model(str(families.write_chat_reranker(tmp_path / "chat")))
    assert chat["family"] == "logit-score"
    assert chat["read_out"] == "the logit of 'yes' minus the logit of 'no' at the last token"
    assert "<|im_end|>" in chat["tokens"]
    assert inspect_model(str(write_classifier(tmp_path / "bert")))["tokens"][0] == "[CLS]"
    late = inspect_model(str(write_late_interaction(tmp_path / "late")))
    assert (late["family"], late["score_kind"], "tokens" in late) == ("colbert", "unbounded", False)


@pytest.mark.parametrize("kind", ["Qwen3", "Qwen2"])
def test_a_draft_is_a_description(tmp_path, kind):
    folder = families.write_causal_family(tmp_path / "judge", kind)
    found = inspect_model(str(folder))
    assert "fits no description" in found["refused"]
    draft = yaml_text.parse(found["draft"])
    assert "<|im_start|>" in draft["input"]["control"]
    assert from_mapping(Family, draft)
    path = tmp_path / "own.yaml"
    path.write_text(found["draft"])
    own = inspect_model(str(folder), str(path))
    assert "refused" not in own
    assert own["score"] != 0


def test_what_is_no_model(tmp_path):
    assert "cannot be loaded" in inspect_model(str(tmp_path))["refused"]
    (tmp_path / "config.json").write_text("{")
    assert "cannot be loaded" in inspect_model(str(tmp_path))["refused"]
    broken = families.write_listwise(tmp_path / "jina-reranker-v3")
    (broken / "model.safetensors").unlink()
    assert "cannot be loaded" in inspect_model(str(broken))["refused"]

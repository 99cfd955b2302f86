"""LoRA adapters: with their base as if they were merged, or refused in one sentence.

The package peft, which applies them, is none of the project's: what needs it is skipped without it.
"""

import importlib.util
import sys

import pytest

import checkpoint_folders as folders
import family_models as families
from secondpass import ModelLoadError, Reranker
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.hub.facts import read_facts
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.inspection import inspect_model
from tiny_models import write_classifier

# Of transformers, for what peft asks of it.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

PASSAGES = ["the cat sat", "dogs ran.", "", families.LONG]
with_peft = pytest.mark.skipif(
    importlib.util.find_spec("peft") is None, reason="needs the package peft"
)


@pytest.fixture
def adapter(tmp_path):
    return families.write_rankllama_adapter(
        tmp_path / "rankllama-v1-7b-lora-passage", base(tmp_path)
    )


def base(tmp_path):
    return tmp_path / "Llama-2-7b-hf"


def scorer_of(folder, **settings):
    settings = {"precision": "exact", "known_answers": False, "device": "cpu", **settings}
    return CrossEncoderScorer(str(folder), **settings)


@with_peft
@pytest.mark.parametrize("tokenizer", [False, True])
def test_scores_are_those_of_the_merged_weights(tmp_path, adapter, tokenizer):
    merged = families.write_merged(tmp_path / "merged", adapter)
    if tokenizer:
        for file in base(tmp_path).glob("tokenizer*"):
            file.rename(adapter / file.name)
    scorer = scorer_of(adapter)
    theirs = families.rankllama(merged, "which cat?", PASSAGES)
    assert scorer.score_pairs("which cat?", PASSAGES) == pytest.approx(theirs, abs=1e-4)
    assert (scorer.score_kind, scorer.engine.backend) == ("unbounded", "torch")
    assert len(set(theirs)) == len(theirs)


@with_peft
def test_another_base_is_another_model_for_the_score_cache(tmp_path, adapter):
    def identity():
        scorer = scorer_of(adapter)
        scorer.warm_up()
        found = scorer.loaded_model.identity()
        scorer.close()
        return found

    first = identity()
    folders.edit_weights(base(tmp_path), lambda weights: {k: it * 2 for k, it in weights.items()})
    assert identity() != first


PARTS = {
    "lora_B": (r"its adapter has no base_model.*lora_B\.weight$", "layers.0.mlp.up_proj.lora_B"),
    "head": (r"its adapter has no base_model\.model\.score\.weight", "score.weight"),
    "base": ("its checkpoint has no model.norm.weight, which the scores of Llama", "model.norm"),
}


@with_peft
@pytest.mark.parametrize("part", PARTS)
def test_what_lacks_a_weight_is_refused_by_the_part(tmp_path, adapter, part):
    message, name = PARTS[part]
    if part == "base":
        folders.edit_weights(base(tmp_path), folders.without(name))
    else:
        file = adapter / "adapter_model.safetensors"
        file.rename(adapter / "model.safetensors")
        folders.edit_weights(adapter, folders.without(name))
        (adapter / "model.safetensors").rename(file)
    with pytest.raises(ModelLoadError, match=message) as caught:
        scorer_of(adapter).warm_up()
    assert "\n" not in str(caught.value)


def test_without_the_package_a_sentence_says_what_is_missing(adapter, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    message = r"is an adapter of '.*Llama-2-7b-hf', which the package peft applies, and it is not"
    with pytest.raises(ModelLoadError, match=message):
        scorer_of(adapter).warm_up()
    [issue] = Reranker(scorer_of(adapter)).rerank("cat", ["dog"]).report.issues
    assert issue.code == "model_not_loaded"
    assert "pip install peft" in issue.message
    found = inspect_model(str(adapter))
    assert found["family"] == "rankllama"
    assert "pip install peft" in found["refused"]


@with_peft
def test_an_adapter_without_weights_is_refused(adapter):
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match=r"it has no adapter_model\.safetensors$"):
        scorer_of(adapter).warm_up()


@with_peft
@pytest.mark.parametrize("saved", [True, False])
def test_an_adapter_of_a_classifier_needs_the_files_of_sentence_transformers(tmp_path, saved):
    import peft
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    encoder = CrossEncoder(str(write_classifier(base(tmp_path))), device="cpu")
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"])
    encoder.add_adapter(settings)
    for name, weights in encoder.named_parameters():
        if "lora" in name:
            weights.data.normal_(0, 0.3)
    theirs = encoder.predict([("cat", text) for text in PASSAGES], activation_fn=Identity())
    folder = tmp_path / "adapter"
    encoder.save_pretrained(str(folder), create_model_card=False)
    scorer = scorer_of(folder)
    if saved:
        assert scorer.score_pairs("cat", PASSAGES) == pytest.approx(theirs.tolist(), abs=1e-4)
        return
    (folder / "modules.json").unlink()
    (folder / "config_sentence_transformers.json").unlink()
    with pytest.raises(ModelLoadError, match=r"no modules.json.* \(peft: `merge_and_unload`\)$"):
        scorer.warm_up()


REFUSED = {
    "no base named": ({"base_model_name_or_path": None}, "does not name the model that it changes"),
    "no such base": ({"base_model_name_or_path": "/no/such/llama"}, "no folder with a config.json"),
    "another kind": (
        {"peft_type": "PROMPT_TUNING"},
        "of the kind PROMPT_TUNING; only LORA",
    ),
    "another base": ({}, "fits no description"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_adapters_without_what_they_need_are_refused(tmp_path, adapter, name):
    changes, message = REFUSED[name]
    folders.edit(adapter, "adapter_config.json", **changes)
    if name == "another base":
        folders.edit(base(tmp_path), "config.json", model_type="qwen3")
    with pytest.raises(ModelLoadError, match=message) as caught:
        scorer_of(adapter).warm_up()
    assert "\n" not in str(caught.value)
    assert inspect_model(str(adapter))["refused"] == str(caught.value)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("SEQ_CLS", "LlamaForSequenceClassification"),
        ("CAUSAL_LM", "LlamaForCausalLM"),
        ("FEATURE_EXTRACTION", "LlamaModel"),
    ],
)
def test_its_class_is_that_of_the_base_with_another_head(tmp_path, adapter, task, kind):
    folders.edit(adapter, "adapter_config.json", task_type=task)
    facts = read_facts(HubModel(str(adapter)), offline=True)
    assert facts.architecture == kind
    assert facts.base.name == str(base(tmp_path))
    assert facts.find("tokenizer.json") == base(tmp_path) / "tokenizer.json"

"""The descriptions of families: how they are read, and which models they fit."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import secondpass
from secondpass import ConfigurationError, ModelLoadError
from secondpass.scorers.engines.facts import ModelFacts
from secondpass.scorers.families import FAMILIES, Family, recognise
from secondpass.settings import from_mapping


def facts(name="model", architecture="", *, modules=None, saved=None, own=None, **config):
    if architecture:
        config["architectures"] = [architecture]
    types = [f"sentence_transformers.models.{module}" for module in modules or ()]
    own = {**(own or {}), **({"model_type": saved} if saved else {})}
    return ModelFacts(name, config, own, modules, types, lambda _: None)


def coded(name, architecture, code):
    return facts(name, architecture, auto_map={"AutoModel": code, "AutoTokenizer": "x"})


POOLED = ["Transformer", "Pooling", "Normalize"]
MODELS = {
    "ms-marco-MiniLM-L6-v2": (facts("x", "BertForSequenceClassification"), "classifier"),
    "saved anew": (
        facts("x", "BertForSequenceClassification", modules=["Transformer"], saved="CrossEncoder"),
        "classifier",
    ),
    "adapter": (None, "classifier"),
    "ettin": (
        facts("x", "ModernBertModel", modules=[*POOLED, "Dense"], saved="CrossEncoder"),
        "modules",
    ),
    "Qwen3-Reranker, today": (
        facts(
            "Qwen3-Reranker-0.6B",
            "Qwen3ForCausalLM",
            modules=["Transformer", "LogitScore"],
            saved="CrossEncoder",
        ),
        "logit-score",
    ),
    "Qwen3-Reranker, raw": (facts("Qwen3-Reranker-4B", "Qwen3ForCausalLM"), "qwen3-reranker"),
    "Qwen3-Embedding": (facts("x", "Qwen3ForCausalLM", modules=POOLED), "bi-encoder"),
    "zerank-1": (coded("zerank-1", "Qwen3ForCausalLM", "modeling_zeranker.X"), "zerank-1"),
    "zerank-2, raw": (facts("zerank-2-reranker", "Qwen3ForCausalLM"), "zerank-2"),
    "ctxl": (facts("ctxl-rerank-v2-6b", "MistralForCausalLM"), "ctxl-rerank-v2"),
    "mxbai": (facts("mxbai-rerank-large-v2", "Qwen2ForCausalLM"), "mxbai-rerank-v2"),
    "mxbai v1": (facts("mxbai-rerank-v1", "DebertaV2ForSequenceClassification"), "classifier"),
    "gemma": (facts("bge-reranker-v2-gemma", "GemmaForCausalLM"), "bge-reranker-v2-gemma"),
    "bge-m3": (facts("bge-reranker-v2-m3", "XLMRobertaForSequenceClassification"), "classifier"),
    "monot5": (facts("monot5-base-msmarco", "T5ForConditionalGeneration"), "monot5"),
    "colbert, Stanford": (facts("x", "HF_ColBERT"), "colbert"),
    "colbert, PyLate": (
        facts("x", "ModernBertModel", modules=["Transformer", "Dense"], saved="ColBERT"),
        "colbert",
    ),
    "colbert, older": (
        facts("x", "BertModel", modules=["Transformer", "Dense"], own={"query_prefix": "[Q] "}),
        "colbert",
    ),
    "splade": (
        facts(
            "x", "BertForMaskedLM", modules=["Transformer", "SpladePooling"], saved="SparseEncoder"
        ),
        "splade",
    ),
    "splade, raw": (facts("splade-cocondenser", "BertForMaskedLM"), "splade"),
    "all-MiniLM": (facts("x", "BertModel", modules=POOLED), "bi-encoder"),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_model_fits_one_family(name):
    model, family = MODELS[name]
    assert recognise("m", model).name == family


def test_the_author_s_code_needs_a_native_class_or_trust():
    jina = facts(
        "x",
        "JinaForRanking",
        model_type="qwen3",
        auto_map={"AutoModel": "modeling.JinaForRanking"},
    )
    found = recognise("m", jina)
    assert (found.name, found.family.native(jina)) == ("jina-reranker-v3", "Qwen3Model")
    flash = coded(
        "x", "XLMRobertaForSequenceClassification", "m.XLMRobertaFlashForSequenceClassification"
    )
    with pytest.raises(ModelLoadError, match="jina-reranker-v2, whose scores only code"):
        recognise("m", flash)
    assert recognise("m", flash, trusted=True).name == "jina-reranker-v2"
    layered = coded("x", "LayerWiseMiniCPMForCausalLM", "modeling.X")
    with pytest.raises(ModelLoadError, match=r"on a rerank server, and name that in `endpoint`$"):
        recognise("m", layered, trusted=True)


@pytest.mark.parametrize(
    ("architecture", "reason"),
    [
        ("BertModel", "an encoder that was not trained"),
        ("BertForMaskedLM", "an encoder that was not trained"),
        ("BertForTokenClassification", "labels each token"),
        ("BertForQuestionAnswering", "finds an answer"),
        ("LlamaForCausalLM", "no read-out"),
        ("T5ForConditionalGeneration", "generates text"),
        ("Unheard", "its class is not known"),
    ],
)
def test_what_fits_none_is_refused_with_its_reason(architecture, reason):
    with pytest.raises(ModelLoadError, match=f"fits no description of a reranker: .*{reason}"):
        recognise("m", facts("m", architecture))


BASE = {
    "title": "t",
    "match": {"architectures": "X"},
    "input": {"of": "pair", "parts": ["$query", "$passage"]},
    "run": {"model": "causal"},
    "read": {"logit": "yes"},
}


def changed(**parts):
    return {**BASE, **parts}


def inputs(**settings):
    return changed(input={**BASE["input"], **settings})


WRONG = {
    "unknown key": (changed(scal={}), "scal: .*did you mean 'scale'"),
    "no run": (changed(run=None), "run: is needed, or code: required"),
    "both": (changed(code="required"), "code: cannot be set beside run"),
    "two read-outs": (changed(read={"logit": "a", "label": 1}), "read: give one of"),
    "of another model": (changed(read={"label": 1}), "read: has no read-out that run.model"),
    "lonely minus": (changed(read={"own": True, "minus": 1}), r"read\.minus: is for label"),
    "placeholder": (inputs(parts=["$query $pasage"]), r"input\.parts\[0\]: '\$pasage' is no"),
    "no passage": (inputs(parts=["$query"]), r"input\.parts: must contain the passage"),
    "of a list": (inputs(parts=["$query $count", "$passage"]), r"'\$count' is no placeholder here"),
    "no plain": (
        inputs(parts=["$instruction $query", "$passage"]),
        r"input\.parts\[0\]\.plain: is needed",
    ),
    "room": (inputs(parts=[{"text": "$query $passage", "room": 1}]), r"input\.parts\[0\]\.room"),
    "share": (inputs(parts=["$query $passage", {"text": "x", "at_most": 2}]), "at_most"),
    "no block": (inputs(of="list"), r"input\.block: is needed"),
    "name": (changed(match={"name": "("}), r"match\.name: is no regular expression"),
    "second way": (changed(match=[{}, {"nam": "x"}]), r"match\[1\]\.nam"),
    "divide": (changed(scale={"divide": 0}), r"scale\.divide"),
    "yes as a boolean": (changed(read={"logit": True}), r"read\.logit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_place(name):
    description, message = WRONG[name]
    with pytest.raises(ConfigurationError, match=message):
        from_mapping(Family, description)


def test_every_description_is_sound_and_verified():
    for name, family in FAMILIES.items():
        assert family.verified is not None, name
        assert family.verified.version or family.verified.address, name
        assert family.models, name


def test_the_code_names_no_family():
    """A family costs one file; what is said of it here would be a second place."""
    names = [name for name in FAMILIES if "-" in name or name in {"splade", "monot5"}]
    words = {name for name in names if name not in {"bi-encoder", "logit-score"}}
    root = Path(secondpass.__file__).parent / "scorers"
    for path in [*root.glob("families.py"), *root.glob("engines/*.py")]:
        text = path.read_text(encoding="utf-8").lower()
        assert not [word for word in words if fnmatchcase(text, f"*{word}*")], path

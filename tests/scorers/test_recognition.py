"""Which models fit which family."""

import pytest

from secondpass import ModelLoadError
from secondpass.scorers.engines.facts import ModelFacts
from secondpass.scorers.families import FAMILIES, Family
from secondpass.scorers.recognition import recognise
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


BY_CODE = [
    # architecture, class in the author's code, what is said
    ("LayerWiseMiniCPMForCausalLM", "Own", "layerwise, whose .*`endpoint`$"),
    ("CostWiseGemmaForCausalLM", "Own", "lightweight, whose .*`endpoint`$"),
    ("LlamaBidirectionalForSequenceClassification", "Own", "nemotron-rerank, "),
    ("NewForSequenceClassification", "NewForSequenceClassification", "gte-multilingual-reranker, "),
    (
        "JinaBertForSequenceClassification",
        "JinaBertForSequenceClassification",
        "v1, whose",
    ),
    ("Lfm2BidirectionalModel", "Own", "LFM2.5-ColBERT, whose"),
    ("BertForSequenceClassification", "Own", "code of its own .a/b--modeling.Own"),
]


@pytest.mark.parametrize(("architecture", "code", "message"), BY_CODE)
def test_what_only_code_of_its_own_computes_is_refused(architecture, code, message):
    with pytest.raises(ModelLoadError, match=message):
        recognise("m", coded("x", architecture, f"a/b--modeling.{code}"))


def test_a_name_breaks_ties(monkeypatch):
    """Of two descriptions that fit, that which names the model is of it."""
    own = {
        "title": "own",
        "match": {"architectures": "LlamaForSequenceClassification", "name": "rankllama"},
        "run": {"model": "classifier"},
        "read": {"label": 0},
    }
    monkeypatch.setitem(FAMILIES, "own", from_mapping(Family, own))
    architecture = "LlamaForSequenceClassification"
    assert recognise("m", facts("rankllama-v1", architecture)).name == "own"
    assert recognise("m", facts("other", architecture)).name == "classifier"

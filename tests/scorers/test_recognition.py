"""Which models fit which family."""

import pytest

from secondpass import ModelLoadError
from secondpass.scorers.engines.facts import ModelFacts
from secondpass.scorers.families import FAMILIES, Family
from secondpass.scorers.recognition import recognise, torch_only
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
    "splade-v3": (
        facts(
            "x",
            "BertForMaskedLM",
            modules=["MLMTransformer", "SpladePooling"],
            saved="SparseEncoder",
        ),
        "splade",
    ),
    "answerai-colbert-small": (facts("x", "HF_ColBERT", model_type="bert"), "colbert"),
    "mxbai-edge-colbert": (
        facts("x", "ModernBertModel", modules=["Transformer", "Dense", "Dense"], saved="ColBERT"),
        "colbert",
    ),
    "ruri-v3-reranker, granite-reranker-r2, gte-reranker-modernbert": (
        facts("x", "ModernBertForSequenceClassification", model_type="modernbert"),
        "classifier",
    ),
    "a language model trained by sentence-transformers, today": (
        facts(
            "x",
            "Qwen3ForSequenceClassification",
            model_type="qwen3",
            modules=["Transformer"],
            saved="CrossEncoder",
        ),
        "classifier",
    ),
    "a language model trained by sentence-transformers 5": (
        facts(
            "x",
            "LlamaForSequenceClassification",
            model_type="llama",
            sentence_transformers={"version": "5.0"},
        ),
        "classifier",
    ),
    "a language model trained by sentence-transformers 3": (
        facts(
            "x",
            "Gemma2ForSequenceClassification",
            model_type="gemma2",
            sbert_ce_default_activation_function="torch.nn.modules.linear.Identity",
        ),
        "classifier",
    ),
    "nemotron": (
        facts(
            "x",
            "LlamaBidirectionalForSequenceClassification",
            model_type="llama_bidirec",
            pooling="avg",
            auto_map={"AutoModelForSequenceClassification": "llama_bidirectional_model.X"},
        ),
        "nemotron-rerank",
    ),
    "monobert": (
        facts("monobert-large-msmarco", "BertForSequenceClassification", model_type="bert"),
        "monobert",
    ),
    "mt5": (facts("mt5-base-mmarco-v2", "MT5ForConditionalGeneration"), "mt5-msmarco"),
    "inf-retriever": (facts("inf-retriever-v1", "Qwen2Model", modules=POOLED), "bi-encoder"),
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
    ("LlamaBidirectionalForSequenceClassification", "Own", "code of its own"),
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


LANGUAGE_MODELS = {
    # fine-tunes, reward models, rankllama: one label, and a template that no file names
    "a fine-tune of a converted reranker": facts(
        "judge", "Qwen3ForSequenceClassification", model_type="qwen3"
    ),
    "a reward model": facts("reward", "Gemma2ForSequenceClassification", model_type="gemma2"),
    "rankllama, merged": facts("rankllama", "LlamaForSequenceClassification", model_type="llama"),
    "NV-RerankQA": facts("rerank-qa", "MistralForSequenceClassification", model_type="mistral"),
}


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_language_model_with_a_head_must_say_what_it_reads(name):
    model = LANGUAGE_MODELS[name]
    with pytest.raises(
        ModelLoadError, match=r"no file says what it reads; .* `family: classifier`"
    ):
        recognise("m", model)
    with pytest.raises(ModelLoadError, match="no file says what it reads"):
        torch_only("m", model)  # not by a file in another format either
    assert recognise("m", model, "classifier").name == "classifier"


def test_all_language_models_with_a_head_are_known():
    """By the classes of transformers that read the last token."""
    import inspect

    import transformers
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as NAMES,
    )

    for kind, name in NAMES.items():
        cls = getattr(transformers, name)
        generic = any(base.__name__.startswith("GenericForSequence") for base in cls.__mro__)
        source = inspect.getsource(cls)
        reads_last = generic or "last_non_pad_token" in source or "sequence_lengths" in source
        fits = FAMILIES["classifier"].reasons(facts("x", name, model_type=kind)) is not None
        assert fits != reads_last, kind


REFUSED = {
    "jina-reranker-m0": (
        coded("x", "JinaVLForRanking", "modeling.JinaVLForRanking"),
        "jina-reranker-m0, whose scores only code",
    ),
    "provence": (
        coded("x", "Provence", "modeling_provence.Provence"),
        "code of its own .modeling_provence.Provence.* rerank server",
    ),
    "colbert-xm": (facts("x", "HF_ColBERT_XMOD", model_type="xmod"), "its class is not known"),
    "ptt5": (facts("ptt5-base-pt-msmarco", "T5ForConditionalGeneration"), "it generates text"),
    "duot5": (facts("duot5-base-msmarco", "T5ForConditionalGeneration"), "it generates text"),
    "mt5, larger": (facts("mt5-13b-mmarco", "MT5ForConditionalGeneration"), "it generates text"),
    "RankZephyr": (facts("rank_zephyr_7b_v1_full", "MistralForCausalLM"), "it has no read-out"),
    "BERT": (facts("bert-base", "BertModel"), "it is an encoder that was not trained as a reran"),
    "ModernBERT": (facts("ModernBERT-base", "ModernBertForMaskedLM"), "was not trained as a reran"),
    "jina-colbert-v2": (
        coded("x", "HF_ColBERT", "jinaai/xlm-roberta-flash--m.XLMRobertaModel"),
        "code of its own",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_in_one_sentence(name):
    model, message = REFUSED[name]
    with pytest.raises(ModelLoadError, match=message) as caught:
        recognise("m", model)
    assert "\n" not in str(caught.value)


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

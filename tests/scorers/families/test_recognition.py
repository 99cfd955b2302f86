"""Which models fit which family."""

from pathlib import Path

import pytest

from secondpass import ModelLoadError
from secondpass.scorers.families.descriptions import FAMILIES, Family, Match
from secondpass.scorers.families.recognition import recognise, torch_only
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.settings import from_mapping


def facts(architecture="", modules="", *, name="model", saved=None, own=None, **config):
    if architecture:
        config["architectures"] = [architecture]
    types = [f"sentence_transformers.models.{module}" for module in modules.split()]
    own = {**(own or {}), **({"model_type": saved} if saved else {})}
    return ModelFacts(name, config, own, types or None, types, lambda _: None)


def named(name, architecture):
    return facts(architecture, name=name)


def coded(architecture, code, name="model"):
    code = {"AutoModel": code, "AutoTokenizer": "x"}
    return facts(architecture, name=name, auto_map=code)


def ranking(name="model", **config):
    """As jina-reranker-v3 and its successors."""
    code = {"AutoModel": "modeling.JinaForRanking"}
    return facts("JinaForRanking", name=name, model_type="qwen3", auto_map=code, **config)


FULL, SLIDING = ["full_attention"] * 2, ["sliding_attention", "full_attention"]
POOLED = "Transformer Pooling Normalize"
MODELS = {
    "ms-marco-MiniLM-L6-v2": (facts("BertForSequenceClassification"), "classifier"),
    "saved anew": (
        facts("BertForSequenceClassification", "Transformer", saved="CrossEncoder"),
        "classifier",
    ),
    "nothing": (None, "classifier"),
    "ettin": (facts("ModernBertModel", f"{POOLED} Dense", saved="CrossEncoder"), "modules"),
    "Qwen3-Reranker, today": (
        facts("Qwen3ForCausalLM", "Transformer LogitScore", saved="CrossEncoder"),
        "logit-score",
    ),
    "Qwen3-Reranker, raw": (named("Qwen3-Reranker-4B", "Qwen3ForCausalLM"), "qwen3-reranker"),
    "Qwen3-Embedding": (facts("Qwen3ForCausalLM", POOLED), "bi-encoder"),
    "jina-reranker-v3": (ranking("jina-reranker-v3"), "jina-reranker-v3"),
    "jina-reranker-v3, saved anew": (ranking(layer_types=FULL), "jina-reranker-v3"),
    "jina-reranker-v3, trained further": (ranking("jina-reranker-v3-law"), "jina-reranker-v3"),
    "jina-reranker-v3.5": (
        ranking("jina-reranker-v3.5", layer_types=SLIDING),
        "jina-reranker-v3.5",
    ),
    "jina-reranker-v3.5, trained further": (ranking(layer_types=SLIDING), "jina-reranker-v3.5"),
    "zerank-1": (coded("Qwen3ForCausalLM", "modeling_zeranker.X", "zerank-1"), "zerank-1"),
    "zerank-2, raw": (named("zerank-2-reranker", "Qwen3ForCausalLM"), "zerank-2"),
    "ctxl": (named("ctxl-rerank-v2-6b", "MistralForCausalLM"), "ctxl-rerank-v2"),
    "mxbai": (named("mxbai-rerank-large-v2", "Qwen2ForCausalLM"), "mxbai-rerank-v2"),
    "mxbai v1": (named("mxbai-rerank-v1", "DebertaV2ForSequenceClassification"), "classifier"),
    "gemma": (named("bge-reranker-v2-gemma", "GemmaForCausalLM"), "bge-reranker-v2-gemma"),
    "bge-m3": (named("bge-reranker-v2-m3", "XLMRobertaForSequenceClassification"), "classifier"),
    "monot5": (named("monot5-base-msmarco", "T5ForConditionalGeneration"), "monot5"),
    "InRanker": (named("InRanker-base", "T5ForConditionalGeneration"), "monot5"),
    "rankt5": (named("RankT5-3b", "T5ForConditionalGeneration"), "rankt5"),
    "rankllama": (
        facts("LlamaForSequenceClassification", name="rankllama-v1-7b", model_type="llama"),
        "rankllama",
    ),
    "mt5": (named("mt5-base-mmarco-v2", "MT5ForConditionalGeneration"), "mt5-msmarco"),
    "monobert": (
        facts("BertForSequenceClassification", name="monobert-large-msmarco", model_type="bert"),
        "monobert",
    ),
    "colbert, Stanford": (facts("HF_ColBERT", model_type="bert"), "colbert"),
    "ColPali": (facts("ColPaliForRetrieval"), "colbert"),
    "colbert, PyLate": (facts("ModernBertModel", "Transformer Dense", saved="ColBERT"), "colbert"),
    "colbert, older": (
        facts("BertModel", "Transformer Dense", own={"query_prefix": "[Q] "}),
        "colbert",
    ),
    "splade": (
        facts("BertForMaskedLM", "Transformer SpladePooling", saved="SparseEncoder"),
        "splade",
    ),
    "splade-v3": (
        facts("BertForMaskedLM", "MLMTransformer SpladePooling", saved="SparseEncoder"),
        "splade",
    ),
    "opensearch-neural-sparse-encoding-doc-v3-distill": (
        facts(
            "DistilBertForMaskedLM",
            "Router SparseStaticEmbedding MLMTransformer SpladePooling",
            saved="SparseEncoder",
        ),
        "splade",
    ),
    "efficient-splade-V-large-doc, today": (
        facts(
            "DistilBertForMaskedLM",
            "Router MLMTransformer SpladePooling",
            name="efficient-splade-V-large-doc",
            saved="SparseEncoder",
        ),
        "splade",
    ),
    "splade, raw": (named("splade-cocondenser", "BertForMaskedLM"), "splade"),
    "ruri-v3-reranker, granite-reranker-r2, gte-reranker-modernbert": (
        facts("ModernBertForSequenceClassification", model_type="modernbert"),
        "classifier",
    ),
    "a language model trained by sentence-transformers, today": (
        facts(
            "Qwen3ForSequenceClassification",
            "Transformer",
            model_type="qwen3",
            saved="CrossEncoder",
        ),
        "classifier",
    ),
    "a language model trained by sentence-transformers 5": (
        facts("LlamaForSequenceClassification", sentence_transformers={"version": "5.0"}),
        "classifier",
    ),
    "a language model trained by sentence-transformers 3": (
        facts(
            "Gemma2ForSequenceClassification",
            model_type="gemma2",
            sbert_ce_default_activation_function="torch.nn.modules.linear.Identity",
        ),
        "classifier",
    ),
    "nemotron": (
        facts(
            "LlamaBidirectionalForSequenceClassification",
            model_type="llama_bidirec",
            pooling="avg",
            auto_map={"AutoModelForSequenceClassification": "llama_bidirectional_model.X"},
        ),
        "nemotron-rerank",
    ),
    "inf-retriever": (facts("Qwen2Model", POOLED), "bi-encoder"),
    "all-MiniLM": (facts("BertModel", POOLED), "bi-encoder"),
    "quora-distilroberta-base, stsb-roberta-base": (
        facts(
            "RobertaForSequenceClassification",
            model_type="roberta",
            sbert_ce_default_activation_function="torch.nn.modules.activation.Sigmoid",
        ),
        "classifier",
    ),
    "MedCPT-Cross-Encoder": (
        facts("BertForSequenceClassification", name="MedCPT-Cross-Encoder", model_type="bert"),
        "classifier",
    ),
    "potion-base-8M, M2V_base_output": (
        facts("StaticModel", "StaticEmbedding", model_type="model2vec"),
        "bi-encoder",
    ),
    "potion-retrieval-32M": (
        facts("StaticModel", "StaticEmbedding Normalize", model_type="model2vec"),
        "bi-encoder",
    ),
    "static-retrieval-mrl-en-v1": (
        facts("", "StaticEmbedding", own={"similarity_fn_name": "cosine"}),
        "bi-encoder",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_model_fits_one_family(name):
    model, family = MODELS[name]
    assert recognise("m", model).name == family


def test_the_author_s_code_needs_a_native_class_or_trust():
    jina = facts(
        "JinaForRanking", model_type="qwen3", auto_map={"AutoModel": "modeling.JinaForRanking"}
    )
    found = recognise("m", jina)
    assert (found.name, found.family.native(jina)) == ("jina-reranker-v3", "Qwen3Model")
    flash = coded(
        "XLMRobertaForSequenceClassification", "m.XLMRobertaFlashForSequenceClassification"
    )
    with pytest.raises(ModelLoadError, match="jina-reranker-v2, whose scores only code"):
        recognise("m", flash)
    assert recognise("m", flash, trusted=True).name == "jina-reranker-v2"
    layered = coded("LayerWiseMiniCPMForCausalLM", "modeling.X")
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
        recognise("m", coded(architecture, f"a/b--modeling.{code}"))


LANGUAGE_MODELS = {
    # fine-tunes, reward models, rankllama: one label, and a template that no file names
    kind: facts(f"{kind}ForSequenceClassification", model_type=kind.lower())
    for kind in ("Qwen3", "Gemma2", "Llama", "Mistral")
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
    """By the classes of transformers that read the last token, in its source: imports take long."""
    import transformers
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as NAMES,
    )

    models = Path(transformers.__file__).parent / "models"
    sources = {}
    for path in models.glob("*/modeling_*.py"):
        for part in path.read_text().split("\nclass ")[1:]:
            sources[part.partition("(")[0]] = part
    for kind, name in NAMES.items():
        generic = "GenericForSequence" in sources[name].partition(":")[0]
        places = ("last_non_pad_token", "sequence_lengths")
        reads_last = generic or any(place in sources[name] for place in places)
        fits = FAMILIES["classifier"].reasons(facts(name, model_type=kind)) is not None
        assert fits != reads_last, kind


REFUSED = {
    "two families": (
        named("zerank-2-qwen3-reranker", "Qwen3ForCausalLM"),
        "fits the descriptions of qwen3-reranker and zerank-2: name",
    ),
    "files that disagree": (
        facts("BertForSequenceClassification", POOLED, saved="SentenceTransformer"),
        "fits no description of a reranker: its files say different things of it",
    ),
    "jina-reranker-m0": (
        coded("JinaVLForRanking", "modeling.JinaVLForRanking"),
        "jina-reranker-m0, which reads images",
    ),
    "KaLM-Reranker": (
        facts("T5Gemma2ForConditionalGeneration", model_type="t5gemma2"),
        "KaLM-Reranker, which reads the passage in its encoder and the query in its decoder: run",
    ),
    "KaLM-Reranker, saved by sentence-transformers": (
        facts("T5Gemma2Model", "Transformer Score", saved="CrossEncoder", model_type="t5gemma2"),
        "KaLM-Reranker, which reads the passage in its encoder",
    ),
    "Qwen3-VL-Reranker": (
        named("Qwen3-VL-Reranker-2B", "Qwen3VLForConditionalGeneration"),
        "which read images beside texts, and only texts are given here: run it on",
    ),
    "Qwen3-VL-Reranker, saved by sentence-transformers": (
        facts("Qwen3VLForConditionalGeneration", "Transformer LogitScore", saved="CrossEncoder"),
        "which read images beside texts",
    ),
    "splade-v3-doc": (
        named("splade-v3-doc", "BertForMaskedLM"),
        "SPLADE models of one side, which encode passages or queries alone",
    ),
    "efficient-splade-V-large-query": (
        named("efficient-splade-V-large-query", "DistilBertForMaskedLM"),
        "SPLADE models of one side",
    ),
    "monoelectra": (
        facts("CrossEncoderElectraModel", model_type="cross-encoder"),
        "models of Lightning IR, whose scores only the package lightning-ir computes: run it on a",
    ),
    "MiniCPM-Reranker": (  # its config.json has no model_type
        coded("MiniCPMForSequenceClassification", "modeling_minicpm.MiniCPMModel"),
        "code of its own .modeling_minicpm.MiniCPMModel.* rerank server",
    ),
    "provence": (
        coded("Provence", "modeling_provence.Provence"),
        "code of its own .modeling_provence.Provence.* rerank server",
    ),
    "colbert-xm": (facts("HF_ColBERT_XMOD", model_type="xmod"), "its class is not known"),
    "ptt5": (named("ptt5-base-pt-msmarco", "T5ForConditionalGeneration"), "it generates text"),
    "duot5": (named("duot5-base-msmarco", "T5ForConditionalGeneration"), "it generates text"),
    "mt5, larger": (named("mt5-13b-mmarco", "MT5ForConditionalGeneration"), "it generates text"),
    "RankZephyr": (named("rank_zephyr_7b_v1_full", "MistralForCausalLM"), "it has no read-out"),
    "BERT": (named("bert-base", "BertModel"), "it is an encoder that was not trained as a reran"),
    "ModernBERT": (named("ModernBERT-base", "ModernBertForMaskedLM"), "was not trained as a reran"),
    "jina-colbert-v2": (
        coded("HF_ColBERT", "jinaai/xlm-roberta-flash--m.XLMRobertaModel"),
        "code of its own",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_in_one_sentence(name):
    model, message = REFUSED[name]
    with pytest.raises(ModelLoadError, match=message) as caught:
        recognise("m", model)
    assert "\n" not in str(caught.value)


def test_trust_in_its_code_does_not_say_what_a_language_model_reads():
    model, _ = REFUSED["MiniCPM-Reranker"]
    with pytest.raises(ModelLoadError, match="no file says what it reads"):
        recognise("m", model, trusted=True)
    assert recognise("m", model, "classifier", trusted=True).name == "classifier"


OTHER_VERSIONS = [
    ("jina-reranker-v3", ranking("jina-reranker-v3.1")),
    ("jina-reranker-v3", ranking("jina-reranker-v4-beta")),
    ("jina-reranker-v3", ranking("jina-reranker-v3.5")),  # which has other layers
    ("jina-reranker-v3.5", ranking("jina-reranker-v3.51", layer_types=SLIDING)),
    ("jina-reranker-v3.5", ranking("jina-reranker-v4", layer_types=SLIDING)),
    ("zerank-1", coded("Qwen3ForCausalLM", "modeling_zeranker.X", "zerank-2")),
    ("zerank-1", coded("Qwen3ForCausalLM", "modeling_zeranker.X", "zerank-1.5-small")),
]


@pytest.mark.parametrize(("family", "model"), OTHER_VERSIONS)
def test_another_version_is_refused_by_its_name(family, model):
    with pytest.raises(ModelLoadError, match=f"another version.*family: {family}`"):
        recognise("m", model)
    assert recognise("m", model, family).name == family


VALUES = [  # wanted, actual, whether it fits
    ("*", None, False),
    ("*", 0, True),
    ("!*", None, True),
    ("!*", False, False),
    ("avg", "avg", True),
    ("!avg", "avg", False),
    ("!avg", None, True),
    ("b", ["a", "b"], True),
    ("!b", ["a", "b"], False),
    ("!b", ["a"], True),
    (["a", "b"], ["a", "b"], True),
]


@pytest.mark.parametrize(("wanted", "actual", "fits"), VALUES)
def test_values_of_a_configuration(wanted, actual, fits):
    config = {} if actual is None else {"inner": {"value": actual}}
    match = Match(config={"inner.value": wanted})
    assert (match.reasons(facts("BertModel", **config)) is not None) == fits


@pytest.mark.parametrize("name", ["monot5", "qwen3-reranker", "jina-reranker-v3"])
def test_a_family_that_is_set_must_fit(name):
    with pytest.raises(ModelLoadError, match=f"does not fit the family '{name}' "):
        recognise("m", facts("BertForSequenceClassification"), name)


def test_a_file_of_a_model_with_code_of_its_own_is_not_run():
    model, _ = REFUSED["jina-reranker-m0"]
    assert torch_only("m", model) == (
        "the model 'm' is one of jina-reranker-m0, which only torch runs"
    )


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
    assert recognise("m", named("rankllama-v1", architecture)).name == "own"
    assert recognise("m", facts(architecture)).name == "classifier"

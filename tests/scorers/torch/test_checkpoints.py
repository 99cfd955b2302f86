"""Which model folders are loaded, and which are refused, with what words."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

import checkpoint_folders as folders
import damaged_folders
import family_models as families
from overlap_model import write_overlap
from secondpass import ModelLoadError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.torch.loading import observed_loading
from tiny_models import (
    TINY_CAUSAL,
    write_causal,
    write_classifier,
    write_late_interaction,
    write_onnx,
    write_raw_causal,
)


def sharded(folder):
    """The projector is in a file of its own."""
    from safetensors.torch import load_file, save_file

    families.write_listwise(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    file_of = {name: f"{name.partition('.')[0]}.safetensors" for name in weights}
    for file in {*file_of.values()}:
        part = {name: weights[name] for name in weights if file_of[name] == file}
        save_file(part, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": file_of}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def causal_embedder(folder):
    """A bi-encoder whose config.json names a causal model, as Qwen3-Embedding's does."""
    write_raw_causal(folder)
    types = ("base.modules.transformer.Transformer", "sentence_transformer.modules.pooling.Pooling")
    modules = [{"type": f"sentence_transformers.{kind}", "path": ""} for kind in types]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def unable(folder):
    """A causal reranker with a chat template that shows neither query nor document."""
    write_causal(folder)
    (folder / "chat_template.jinja").write_text(
        "{% for message in messages if message['role'] == 'user' %}{{ message['content'] }}"
        "{% endfor %}"
    )
    return folder


def routed_module(folder):
    """A router to a module whose code is in the folder."""
    folders.own_module(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[-1]["type"] = "sentence_transformers.base.modules.router.Router"
    (folder / "modules.json").write_text(json.dumps(modules))
    folders.edit(
        folder / modules[-1]["path"], "router_config.json", types={"a": "own_scores.OwnScores"}
    )
    return folder


def late_own_module(folder):
    """A model of late interaction with a module whose code is in the folder."""
    write_late_interaction(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "own_scores.OwnScores"
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def llama_classifier(folder, *, ends=False, pad=None):
    """A causal classifier without a padding token.

    With ``ends``, its tokenizer ends each text; ``pad`` is the tokenizer's padding token.
    """
    import torch
    from tokenizers import processors
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    write_raw_causal(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if ends:
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="$A <eos>", pair="$A $B <eos>", special_tokens=[("<eos>", 2)]
        )
    tokenizer.pad_token, tokenizer.chat_template = pad, None
    (folder / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        num_labels=1,
        pad_token_id=None,
        **TINY_CAUSAL,
    )
    LlamaForSequenceClassification(config).save_pretrained(folder)
    folders.edit(folder, "config.json", sentence_transformers={"version": "5.0"})
    return folder


def small(folder):
    """A classifier that was saved with the tokenizer of another model."""
    name = "bert.embeddings.word_embeddings.weight"
    folders.edit(write_classifier(folder), "config.json", vocab_size=6)
    return folders.edit_weights(folder, lambda weights: weights | {name: weights[name][:6]})


def without_start(folder):
    folders.edit(families.write_t5(folder), "config.json", decoder_start_token_id=None)
    return folder


def untokened(folder):
    """Qwen3-Reranker's form with the tokenizer of another model."""
    return write_raw_causal(folder.with_name("qwen3-reranker"))


def cold(folder):
    folders.edit(families.write_bidirectional(folder), "config.json", temperature=0)
    return folder


def unsaid(folder):
    """A reranker with modules, without the file that says that it is one."""
    (folders.modular(folder) / "config_sentence_transformers.json").unlink()
    return folder


def truncated(folder):
    path = families.write_listwise(folder) / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return folder


def changed(write, change, part="."):
    """A model with other weights."""
    return lambda folder: folders.edit_weights(write(folder), change, part)


def training_head(weights):
    """What the model does not use."""
    import torch

    more = {"mlm.weight": torch.ones(3, 3), "bert.embeddings.position_ids": torch.arange(64)[None]}
    return weights | more


def head_for_another_width(weights):
    return weights | {"classifier.weight": weights["classifier.weight"][:, :16].clone()}


def infinite(weights):
    return weights | {"classifier.bias": weights["classifier.bias"] / 0}


def biased_projector(weights):
    return weights | {"projector.0.bias": weights["projector.0.weight"][:, 0].clone()}


def transposed_projector(weights):
    matrix = weights["projector.0.weight"]
    return weights | {"projector.0.weight": matrix.T.contiguous()}


RIGHT = {
    "bert": write_classifier,
    "causal": write_causal,
    "tied": folders.tied,
    "sharded": sharded,
    "more weights": changed(write_classifier, training_head),
}

WRONG = {
    "causal embedder": (causal_embedder, "cannot be loaded"),
    "without a head": (
        folders.without_head,
        r"has no classifier\.bias, classifier\.weight, which the scores of "
        "BertForSequenceClassification need",
    ),
    "untemplated": (folders.untemplated, "has no template: .*prompt"),
    "unable": (unable, "cannot read pairs: The chat template .* cannot carry"),
    "incomplete": (
        folders.incomplete,
        r"has no bert\.encoder\.layer\.1\.attention\.self\.query\.weight, which",
    ),
    "other shape": (
        changed(write_classifier, head_for_another_width),
        "has other shapes of classifier.weight",
    ),
    "headless modules": (
        changed(folders.modular, folders.without("weight"), "4_Dense"),
        'Missing key.*"linear.weight"',
    ),
    "small": (small, "6 token vectors, and its tokenizer .* of another model"),
    "infinite": (changed(write_classifier, infinite), "its weights give no finite score"),
    "other projector": (
        changed(families.write_listwise, transposed_projector),
        "cannot score a text .RuntimeError: mat1 and mat2",
    ),
    "with another projector": (
        changed(families.write_listwise, biased_projector),
        r"has projector\.0\.bias, which its family does not read",
    ),
    "without its projector": (
        changed(families.write_listwise, folders.without("projector.2")),
        r"has no projector\.2\.weight",
    ),
    "truncated": (truncated, "cannot be loaded: SafetensorError"),
    "modules that score": (unsaid, "has a module that scores pairs, but its config_sent"),
    "tokens of another model": (untokened, "in place of '<.im_start.>', which its family needs"),
    "another temperature": (cold, "has temperature 0 in its config.json"),
    "monot5": (without_start, "has no decoder_start_token_id"),
    "own module": (folders.own_module, "'own_scores.OwnScores', which is code of its own"),
    "routed module": (routed_module, "'own_scores.OwnScores', which is code of its own"),
    "late interaction, incomplete": (
        changed(write_late_interaction, folders.without("layer.0.attention.self.key")),
        r"has no encoder\.layer\.0\.attention\.self\.key",
    ),
    "late interaction, own module": (
        late_own_module,
        "'own_scores.OwnScores', which is code of its own",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_models_load(name, tmp_path, caplog):
    folder = str(RIGHT[name](tmp_path / "model"))
    with caplog.at_level(logging.WARNING):
        scores = CrossEncoderScorer(folder, backend="torch").score_pairs("a", ["a", "the cat sat"])
    assert len(set(scores)) == 2
    assert "newly initialized" not in caplog.text


@pytest.mark.parametrize("name", WRONG)
def test_wrong_models_are_refused(name, tmp_path):
    write, message = WRONG[name]
    folder = str(write(tmp_path / name))
    with pytest.raises(ModelLoadError, match=message) as caught:
        CrossEncoderScorer(folder, backend="torch").warm_up()
    assert folder in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / name / "ran").exists()


def test_weights_that_no_score_depends_on_may_be_missing(tmp_path):
    without_pooler = changed(write_late_interaction, folders.without("pooler"))
    whole = CrossEncoderScorer(str(write_late_interaction(tmp_path / "whole")))
    scorer = CrossEncoderScorer(str(without_pooler(tmp_path / "model")))
    assert scorer.score_pairs("cat", ["a", "dog"]) == whole.score_pairs("cat", ["a", "dog"])


def test_trust_allows_code_and_not_missing_weights(tmp_path):
    own = str(folders.own_module(tmp_path / "own"))
    assert CrossEncoderScorer(own, trust_remote_code=True).score_pairs("a", ["a"])
    assert (tmp_path / "own" / "ran").exists()


def test_a_prompt_is_a_template(tmp_path):
    folder = str(folders.untemplated(tmp_path / "model"))
    assert CrossEncoderScorer(folder, prompt="the query ").score_pairs("cat", ["a"])


# ---------------------------------------------------------------------- padding


def test_a_model_without_a_pad_token_has_that_of_its_tokenizer(tmp_path):
    """A batch of several pairs has the scores of one by one, which need no padding."""
    import torch
    from transformers import AutoTokenizer, LlamaForSequenceClassification

    for name, settings in {"none": {}, "tokenizer's": {"pad": "<pad>", "ends": True}}.items():
        folder = llama_classifier(tmp_path / name, **settings)
        model = LlamaForSequenceClassification.from_pretrained(folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        texts = ["a", "the cat sat on the mat", "dog"]
        with torch.no_grad():
            alone = [
                model(**tokenizer("cat", text, return_tensors="pt")).logits[0, 0].item()
                for text in texts
            ]
        scorer = CrossEncoderScorer(str(folder), precision="exact")
        assert scorer.score_pairs("cat", texts) == pytest.approx(alone, abs=1e-4)


def test_a_token_that_ends_texts_is_no_pad_token(tmp_path):
    folder = str(llama_classifier(tmp_path / "model", ends=True))
    with pytest.raises(ModelLoadError, match=r"no pad token \(pad_token_id\), and '<eos>' ends"):
        CrossEncoderScorer(folder).warm_up()
    scorer = CrossEncoderScorer(folder, tokenizer_kwargs={"pad_token": "<pad>"})
    assert len(scorer.score_pairs("cat", ["a", "the cat"])) == 2


def test_no_token_for_padding(tmp_path):
    folder = llama_classifier(tmp_path / "model")
    folders.edit(folder, "tokenizer_config.json", eos_token=None)
    folders.edit(folder, "special_tokens_map.json", eos_token=None)
    with pytest.raises(ModelLoadError, match="neither a pad token nor an end-of-text token"):
        CrossEncoderScorer(str(folder)).warm_up()


def test_concurrent_loads_are_told_apart(tmp_path):
    """transformers is observed by thread, and left as it was: it is not safe for two at once."""
    from transformers import AutoModel, PreTrainedModel

    names = ("from_pretrained", "tie_weights", "init_weights")
    before = [PreTrainedModel.__dict__[name] for name in names]
    right = str(write_classifier(tmp_path / "right"))
    wrong = str(folders.without_head(tmp_path / "wrong"))

    def load(number):
        if number % 3 == 2:  # somebody else's: it gets what it asks for
            return type(AutoModel.from_pretrained(right)).__name__
        scorer = CrossEncoderScorer(
            wrong if number % 3 else right, backend="torch", remember=number, precision="exact"
        )
        try:
            scorer.warm_up()
        except ModelLoadError as error:
            return "classifier.weight" in str(error)

    with observed_loading(), ThreadPoolExecutor(6) as pool:
        assert [*pool.map(load, range(9))] == [None, True, "BertModel"] * 3
    assert [PreTrainedModel.__dict__[name] for name in names] == before


def test_loads_in_other_types_leave_torch_as_it_was(tmp_path):
    """transformers changes the default type of all threads while it loads."""
    import torch

    folder = str(write_classifier(tmp_path / "model"))

    def load(number):
        CrossEncoderScorer(
            folder,
            backend="torch",
            precision=("bfloat16", "float16", "exact")[number % 3],
            remember=number,
            known_answers=False,
        ).warm_up()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(load, range(12)))
    assert torch.get_default_dtype() == torch.float32


# ---------------------------------------------------------------------- what does not fit


def further(name, like="bert.pooler.dense.weight"):
    """One more weight in the checkpoint of a classifier."""
    return lambda folder: folders.edit_weights(
        write_classifier(folder), lambda weights: {**weights, name: weights[like].clone()}
    )


UNFIT = {
    "a third layer": (further("bert.encoder.layer.2.output.dense.weight"), "has bert.encoder.la"),
    "a second head": (further("score.weight"), "has score.weight, which BertForSequence.* does no"),
}


def test_a_further_layer_beside_modules(tmp_path):
    """On no engine, also without torch."""

    def change(weights):
        third = {key.replace("layers.1.", "layers.2."): it * 1 for key, it in weights.items()}
        return third | weights

    folder = folders.edit_weights(folders.modular(tmp_path / "model"), change)
    for backend in ("auto", "openvino", "torch"):
        with pytest.raises(ModelLoadError, match=r"layers.2|more layers than its config.json"):
            CrossEncoderScorer(str(folder), backend=backend).warm_up()


FIT = ["cls.predictions.decoder.weight", "lm_head.weight", "mtp.0.weight", "bert.pooler2.weight"]
FIT += ["bert.embeddings.position_ids", "mask_predictions.dense.weight", "vocab_projector.weight"]


def loaded(folder, **settings):
    CrossEncoderScorer(str(folder), backend="torch", known_answers=False, **settings).warm_up()


@pytest.mark.parametrize("name", UNFIT)
def test_weights_that_nothing_computes(tmp_path, name):
    write, message = UNFIT[name]
    with pytest.raises(ModelLoadError, match=message):
        loaded(write(tmp_path / "model"))


@pytest.mark.parametrize("name", FIT)
def test_weights_of_the_training_alone(tmp_path, name):
    loaded(further(name)(tmp_path / "model"))


def test_a_head_beside_an_encoder_of_texts_is_no_matter(tmp_path):
    folder = folders.embedder(tmp_path / "model")
    add = {"classifier.weight": "embeddings.word_embeddings.weight"}
    folders.edit_weights(folder, lambda all_: {**all_, **{n: all_[o] * 1 for n, o in add.items()}})
    loaded(folder)
    add = {"encoder.layer.2.output.dense.weight": "encoder.layer.1.output.dense.weight"}
    folders.edit_weights(folder, lambda all_: {**all_, **{n: all_[o] * 1 for n, o in add.items()}})
    with pytest.raises(ModelLoadError, match="which BertModel does not compute"):
        loaded(folder)


TOKENIZERS = {
    "no tokenizer": "has no tokenizer: neither tokenizer.json",
    "empty vocabulary": "103 token vectors, and its tokenizer only 5 tokens",
    "a third of the vocabulary": "103 token vectors, and its tokenizer only 33 tokens",
    "characters": "reads no word of its own vocabulary",
}


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("backend", ["torch", "openvino", "onnx"])
def test_a_tokenizer_that_is_not_the_model_s(tmp_path, name, backend):
    folder = damaged_folders.DAMAGES[name](write_onnx(write_overlap(tmp_path / "model")))
    message = TOKENIZERS[name]
    if name == "no tokenizer" and backend != "torch":
        message = "no tokenizer.json"
    scorer = CrossEncoderScorer(str(folder), backend=backend)
    with pytest.raises(ModelLoadError, match=message):
        scorer.warm_up()


@pytest.mark.parametrize("backend", ["openvino", "onnx"])
@pytest.mark.parametrize("name", ["added tokens", "special tokens"])
def test_added_tokens_without_vectors(tmp_path, backend, name):
    damage = damaged_folders.DAMAGES[f"{name} without vectors"]
    folder = damage(write_onnx(write_overlap(tmp_path / "model")))
    with pytest.raises(ModelLoadError, match=r"103 token vectors, .* up to the number 105"):
        CrossEncoderScorer(str(folder), backend=backend).warm_up()


def test_bytes_have_no_vocabulary_file(tmp_path):
    """ByT5's tokenizer, of which half of the tokens are added ones."""
    from transformers import ByT5Tokenizer, T5Config, T5ForConditionalGeneration

    folder = tmp_path / "monot5-bytes"
    ByT5Tokenizer().save_pretrained(folder)
    config = T5Config(
        **{"vocab_size": 384, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1},
        **{"num_heads": 2, "decoder_start_token_id": 0},
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    own = {
        "title": "bytes",
        "match": {"architectures": "T5ForConditionalGeneration"},
        "input": {"of": "pair", "parts": ["$query $passage"]},
        "run": {"model": "seq2seq"},
        "read": {"logit": 100, "minus": 101},
    }
    loaded(folder, family=own)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ModelLoadError, match="has no tokenizer"):
        loaded(folder, family=own)


def test_nemotron_reads_both_ways(tmp_path):
    folder = families.write_bidirectional(tmp_path / "llama-nemotron-rerank-1b-v2")
    loaded(folder)
    folders.edit(folder, "config.json", is_causal=True)
    with pytest.raises(ModelLoadError, match=r"rerank, which reads both ways, .*is_causal"):
        loaded(folder)

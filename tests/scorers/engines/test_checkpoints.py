"""Which model folders are loaded, and which are refused, with what words."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

import checkpoint_folders as folders
import family_models as families
from secondpass import ModelLoadError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.engines import checkpoints
from secondpass.scorers.late_interaction import LateInteractionScorer
from tiny_models import write_causal, write_classifier, write_late_interaction


def small(folder):
    """A classifier that was saved with the tokenizer of another model."""
    name = "bert.embeddings.word_embeddings.weight"
    folders.edit(write_classifier(folder), "config.json", vocab_size=6)
    return folders.edit_weights(folder, lambda weights: weights | {name: weights[name][:6]})


def unfinite(folder):
    return folders.edit_weights(
        write_classifier(folder),
        lambda weights: weights | {"classifier.bias": weights["classifier.bias"] / 0},
    )


def with_other_projector(folder):
    return folders.edit_weights(
        families.write_listwise(folder),
        lambda weights: (
            weights | {"projector.0.weight": weights["projector.0.weight"].T.contiguous()}
        ),
    )


def without_start(folder):
    folders.edit(families.write_t5(folder), "config.json", decoder_start_token_id=None)
    return folder


RIGHT = {
    "bert": write_classifier,
    "xlm-roberta": folders.architecture("xlm-roberta"),
    "deberta-v2": folders.architecture("deberta-v2"),
    "modernbert": folders.architecture("modernbert"),
    "modular": folders.modular,
    "causal": write_causal,
    "tied": folders.tied,
    "sharded": folders.sharded,
    "pickled": folders.pickled,
    "more weights": folders.with_more_weights,
    "late interaction": write_late_interaction,
    "embedder": folders.embedder,
}

WRONG = {
    "encoder": (folders.bare, "is a BertModel that fits no description .*: it is an encoder"),
    "masked": (folders.masked, "is a BertForMaskedLM that .* was not trained as a reranker"),
    "causal embedder": (folders.causal_embedder, "cannot be loaded"),
    "without a head": (
        folders.without_head,
        r"has no classifier\.bias, classifier\.weight, which the scores of "
        "BertForSequenceClassification need",
    ),
    "remote code": (folders.flash, "code of its own .modeling.XLMRobertaFlash.*trust_remote_code"),
    "raw causal": (
        folders.write_raw_causal,
        "is a Qwen3ForCausalLM that fits no description .* no read-out .* LogitScore",
    ),
    "untemplated": (folders.untemplated, "has no template: .*prompt"),
    "unable": (folders.unable, "cannot read pairs: The chat template .* cannot carry"),
    "sequence to sequence": (folders.sequence_to_sequence, "is a T5ForConditionalGeneration"),
    "listwise": (
        folders.listwise,
        r"has 3 tokens in place of .<\|im_start\|>., which its family needs",
    ),
    "incomplete": (
        folders.incomplete,
        r"has no bert\.encoder\.layer\.1\.attention\.self\.query\.weight, which",
    ),
    "half sharded": (folders.half_sharded, r"has no bert\.encoder\.layer\.1\.output\.dense"),
    "other shape": (folders.other_shape, "has other shapes of classifier.weight"),
    "headless modules": (folders.headless_modules, 'Missing key.*"linear.weight"'),
    "small": (small, "6 token vectors, and its tokenizer .* of another model"),
    "unfinite": (unfinite, "its weights give no finite score"),
    "other projector": (with_other_projector, "cannot score a text .RuntimeError: mat1 and mat2"),
    "monot5": (without_start, "has no decoder_start_token_id"),
    "own module": (folders.own_module, "'own_scores.OwnScores', which is code of its own"),
    "routed module": (folders.routed_module, "'own_scores.OwnScores', which is code of its own"),
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
    assert not (tmp_path / name / "ran").exists()


LATE = {
    "late_incomplete": (folders.late_incomplete, r"has no encoder\.layer\.0\.attention\.self\.key"),
    "late_own_module": (folders.late_own_module, "'own_scores.OwnScores', which is code of its"),
}


@pytest.mark.parametrize("name", LATE)
def test_wrong_models_of_late_interaction(name, tmp_path):
    write, message = LATE[name]
    with pytest.raises(ModelLoadError, match=message):
        LateInteractionScorer(str(write(tmp_path / "model"))).warm_up()


def test_weights_that_no_score_depends_on_may_be_missing(tmp_path):
    whole = LateInteractionScorer(str(write_late_interaction(tmp_path / "whole")))
    scorer = LateInteractionScorer(str(folders.without_pooler(tmp_path / "model")))
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
        folder = folders.llama_classifier(tmp_path / name, **settings)
        model = LlamaForSequenceClassification.from_pretrained(folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        texts = ["a", "the cat sat on the mat", "dog"]
        with torch.no_grad():
            alone = [
                model(**tokenizer("cat", text, return_tensors="pt")).logits[0, 0].item()
                for text in texts
            ]
        scorer = CrossEncoderScorer(str(folder), precision="exact")
        assert scorer.score_pairs("cat", texts) == pytest.approx(alone, abs=1e-5)


def test_a_token_that_ends_texts_is_no_pad_token(tmp_path):
    folder = str(folders.llama_classifier(tmp_path / "model", ends=True))
    with pytest.raises(ModelLoadError, match=r"no pad token \(pad_token_id\), and '<eos>' ends"):
        CrossEncoderScorer(folder).warm_up()
    scorer = CrossEncoderScorer(folder, tokenizer_kwargs={"pad_token": "<pad>"})
    assert len(scorer.score_pairs("cat", ["a", "the cat"])) == 2


def test_no_token_for_padding(tmp_path):
    folder = folders.llama_classifier(tmp_path / "model")
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

    with checkpoints._observer.observed(), ThreadPoolExecutor(6) as pool:
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

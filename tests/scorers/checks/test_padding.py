"""Scores that depend on the batch: such files are refused, and encoders are padded at the right."""

import pytest

import checkpoint_folders as folders
import family_models as families
from damaged_folders import DAMAGES, settings, write_damaged
from overlap_model import QUERIES, write_overlap
from secondpass import ModelLoadError
from secondpass.scorers.checks import padding
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from tiny_models import write_causal, write_classifier, write_late_interaction, write_onnx

[QUERY, *_], [TEXTS, *_] = QUERIES, QUERIES.values()


def scorer_of(folder, **settings):
    settings = {"precision": "exact", "known_answers": False, "device": "cpu", **settings}
    return CrossEncoderScorer(str(folder), **settings)


def scores_of(folder, texts=TEXTS, **settings):
    return scorer_of(folder, **settings).score_pairs(QUERY, texts)


BATCH = [
    "ONNX without a mask",
    "ONNX ignoring the mask",
    "ONNX padded at the left",
    "ONNX normalised over the batch",
    "ONNX of probabilities over the batch",
]
SIZES = ["ONNX of a fixed length", "ONNX of a fixed batch", "ONNX of states"]


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Damaged folders by the name of the damage, each written once."""
    place = tmp_path_factory.mktemp("traced")
    known = {}

    def write(name):
        if name not in known:
            known[name] = write_damaged(place / name.replace(" ", "-"), name)
        return known[name]

    return write


@pytest.mark.parametrize("name", [*BATCH, *SIZES])
@pytest.mark.parametrize("backend", ["openvino", "onnx"])
@pytest.mark.parametrize("precision", ["exact", "auto"])
def test_a_file_whose_scores_depend_on_the_batch_is_refused(traced, name, backend, precision):
    said = r"depend on the batch: .* `secondpass export` .* `backend: torch`"
    message = "cannot score pairs|" + said if name in SIZES else said
    with pytest.raises(ModelLoadError, match=message) as caught:
        scores_of(traced(name), backend=backend, precision=precision)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["openvino", "onnx"])
def test_a_right_file_is_not(traced, backend):
    folder = traced("right ONNX file")
    expected = scores_of(folder, backend="torch")
    assert scores_of(folder, backend=backend) == pytest.approx(expected, abs=1e-4)


def test_a_dynamically_quantised_file_may_round(tmp_path):
    from onnxruntime.quantization import quantize_dynamic

    folder = write_onnx(write_classifier(tmp_path / "model", seed=1))
    quantize_dynamic(str(folder / "onnx/model.onnx"), str(folder / "onnx/small.onnx"))
    settings = {"backend": "onnx", "file": "onnx/small.onnx"}
    assert len(scores_of(folder, precision="auto", **settings)) == len(TEXTS)
    with pytest.raises(ModelLoadError, match="depend on the batch"):
        scores_of(folder, **settings)


@pytest.mark.parametrize(
    ("beside", "exact", "fault"),
    [
        (1.0, True, False),
        (1.00009, True, False),
        (1.0002, True, True),
        (1.0002, False, False),
        (1.09, False, False),
        (1.11, False, True),
    ],
)
def test_what_is_allowed(beside, exact, fault):
    def score(pairs):
        if len(pairs) > 2:  # the known answers, whose spread is 2
            return [0.0, *[2.0] * (len(pairs) - 1)]
        return [1.0 if len(pairs) == 1 else beside, 0.0][: len(pairs)]

    found = padding.padding_fault(score, exact=exact)
    assert (found is not None) == fault
    if fault:
        assert found == f"a pair scores 1 alone and {beside:.4g} beside a longer one"


# ---------------------------------------------------------------------- padding at the left


def left(folder):
    return settings(padding_side="left")(folder)


@pytest.mark.parametrize(
    "write",
    [write_overlap, folders.embedder, folders.modular, write_late_interaction],
    ids=["classifier", "embedder", "modules", "late interaction"],
)
def test_encoders_are_padded_at_the_right(tmp_path, write):
    folder = write(tmp_path / "model")
    texts = ["the cat sat", "the cat sat on a mat " * 4, "dog"]
    expected = [scores_of(folder, [text], backend="torch")[0] for text in texts]
    for config in folder.rglob("tokenizer_config.json"):
        left(config.parent)
    assert scores_of(folder, texts, backend="torch") == pytest.approx(expected, abs=1e-4)


def test_causal_models_may_be_padded_at_the_left(tmp_path):
    scorer = scorer_of(write_causal(tmp_path / "model"))
    texts = ["the cat sat", "the cat sat on a mat " * 4, "dog"]
    alone = [scorer.score_pairs("cat", [text])[0] for text in texts]
    assert scorer.score_pairs("cat", texts) == pytest.approx(alone, abs=1e-4)
    assert scorer.loaded_model.encoder.tokenizer.padding_side == "left"


def test_a_causal_model_of_learned_positions_is_refused(tmp_path):
    """Its answer is read at the last position, and its positions are counted with the padding."""
    import torch
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    folder = write_causal(tmp_path / "model")
    torch.manual_seed(0)
    config = GPTNeoConfig(
        **{"vocab_size": 18, "hidden_size": 32, "num_layers": 2, "num_heads": 2},
        **{"attention_types": [[["global"], 2]], "max_position_embeddings": 64},
        **{"bos_token_id": 2, "eos_token_id": 2, "initializer_range": 0.5},
    )
    GPTNeoForCausalLM(config).save_pretrained(folder)
    with pytest.raises(ModelLoadError, match="counts positions from the padding"):
        scores_of(folder, ["dog"])


# ---------------------------------------------------------------------- lengths


@pytest.mark.parametrize("backend", ["torch", "openvino", "onnx"])
def test_no_more_tokens_than_positions(traced, backend):
    folder = traced("right ONNX file")
    assert scores_of(folder, backend=backend, max_length=96)
    with pytest.raises(ModelLoadError, match="max_length 97 is more than the 96 positions of the"):
        scores_of(folder, backend=backend, max_length=97)


def test_no_more_tokens_than_positions_of_a_family(tmp_path):
    folder = families.write_causal_family(tmp_path / "Qwen3-Reranker-0.6B", "Qwen3")
    with pytest.raises(ModelLoadError, match="max_length 1025 is more than the 1024 positions"):
        scores_of(folder, max_length=1025)


def test_a_tokenizer_s_limit_beyond_the_positions(tmp_path):
    folder = DAMAGES["longer than its positions"](write_overlap(tmp_path / "model"))
    long = "the cat sat on the mat . " * 40
    assert scores_of(folder, [long], backend="torch") == pytest.approx(
        scores_of(write_overlap(tmp_path / "right"), [long], backend="torch"), abs=1e-4
    )

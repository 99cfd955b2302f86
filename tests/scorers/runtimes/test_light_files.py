"""What the files of a model say of it."""

import pytest

from checkpoint_folders import edit
from secondpass.scorers.checks.sizes import skipped_positions
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from tiny_architectures import write_architecture
from tiny_models import write_onnx

LONG = ["a b c d e " * 20, "e d c b a " * 13]
ROOM = 65  # 66 positions, and the padding token has the first


@pytest.fixture(
    scope="module", params=[pytest.param("roberta", marks=pytest.mark.long), "xlm-roberta"]
)
def unlimited(request, tmp_path_factory):
    """A model that counts positions from its padding token, and whose tokenizer has no limit."""
    folder = write_architecture(tmp_path_factory.mktemp("model") / "m", request.param)
    edit(folder, "tokenizer_config.json", model_max_length=int(1e30))
    return str(write_onnx(folder))


@pytest.mark.parametrize("backend", ["torch", "onnx", "openvino"])
def test_long_pairs_are_truncated_to_the_positions(unlimited, backend):
    def scores(**settings):
        scorer = CrossEncoderScorer(unlimited, backend=backend, precision="exact", **settings)
        return scorer.score_pairs("a b", LONG)

    assert scores() == pytest.approx(scores(max_length=ROOM), abs=1e-5)
    assert scores() != pytest.approx(scores(max_length=ROOM - 1), abs=1e-5)


@pytest.mark.parametrize(
    ("config", "skipped"),
    [
        ({"model_type": "xlm-roberta", "pad_token_id": 1}, 2),
        ({"model_type": "roberta"}, 2),
        ({"model_type": "roberta", "pad_token_id": 0}, 1),
        ({"model_type": "mpnet", "pad_token_id": 5}, 2),
        ({"model_type": "bert", "pad_token_id": 0}, 0),
        ({}, 0),
    ],
)
def test_skipped_positions(config, skipped):
    assert skipped_positions(config) == skipped

"""A local model is released with the last reference to it, without a garbage collection."""

import gc
import time
import weakref

import pytest

from family_models import write_causal_family, write_listwise
from secondpass import Reranker
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.embedded import EmbeddedScorer
from tiny_models import write_late_interaction

TEXTS = ["the cat", "dogs ran", "the cat sat on a mat"]
SECONDS = 60


@pytest.fixture(scope="module")
def folders(tmp_path_factory, folder):
    path = tmp_path_factory.mktemp("models")
    return {
        "classifier": folder,
        "late interaction": str(write_late_interaction(path / "late")),
        "family": str(write_causal_family(path / "Qwen3-Reranker-0.6B", "Qwen3")),
        "list": str(write_listwise(path / "jina-reranker-v3")),
    }


def cross_encoder(name, **settings):
    return lambda folders: CrossEncoderScorer(folders[name], known_answers=False, **settings)


SCORERS = {
    "embedded": lambda _folders: EmbeddedScorer(memory_mb=2),
    "onnx": cross_encoder("classifier", backend="onnx"),
    "openvino": cross_encoder("classifier", backend="openvino"),
    "torch": cross_encoder("classifier", backend="torch"),
    "family": cross_encoder("family"),
    "list": cross_encoder("list", trust_remote_code=True),
    "late interaction": cross_encoder("late interaction"),
}


@pytest.fixture
def _no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("limits", [{}, {"deadline": 60.0}], ids=["no limit", "deadline"])
@pytest.mark.parametrize("name", SCORERS)
def test_a_model_is_released_with_its_scorer(name, limits, folders):
    scorer = SCORERS[name](folders)
    Reranker(scorer, limits=limits).rerank("cat", TEXTS)
    lazy = scorer._pairs if isinstance(scorer, CrossEncoderScorer) else scorer._engine
    engine = getattr(lazy.loaded, "engine", lazy.loaded)
    left = [weakref.ref(scorer), weakref.ref(engine), weakref.ref(engine.model)]
    if torch_model := getattr(engine.model, "encoder", None):
        left.append(weakref.ref(torch_model))
    del scorer, lazy, engine, torch_model
    until = time.monotonic() + SECONDS
    while any(one() is not None for one in left):  # its threads end
        assert time.monotonic() < until, [one() for one in left]
        time.sleep(0.001)

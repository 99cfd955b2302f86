"""Models by name, and what is said of one that cannot be loaded."""

import re

import httpx
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from secondpass import ModelLoadError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.hub import HubModel
from secondpass.scorers.late_interaction import LateInteractionScorer

UNREACHABLE = "the hub was not contacted or did not answer"


@pytest.fixture
def cache(tmp_path):
    """A cache of the hub with one revision of one model."""
    cached = tmp_path / "models--some--model"
    (cached / "snapshots" / "c0ffee").mkdir(parents=True)
    (cached / "snapshots" / "c0ffee" / "config.json").write_text("{}")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("name", "revision", "reason"),
    [
        ("some/other", None, f"no such folder, and {UNREACHABLE}"),
        ("some/other", "v2", f"no such folder, and {UNREACHABLE}"),
        ("some/model", None, f"its revision 'main' is not in the cache, and {UNREACHABLE}"),
        ("some/model", "v2", f"its revision 'v2' is not in the cache, and {UNREACHABLE}"),
    ],
)
@pytest.mark.parametrize(
    "scorer",
    [
        lambda name, **settings: CrossEncoderScorer(name, backend="onnx", **settings),
        lambda name, **settings: CrossEncoderScorer(name, backend="torch", **settings),
        LateInteractionScorer,
    ],
)
def test_what_a_cache_lacks(cache, scorer, name, revision, reason):
    settings = {"revision": revision, "cache_folder": cache, "local_files_only": True}
    with pytest.raises(ModelLoadError, match=f"{re.escape(reason)}$"):
        scorer(name, **settings).warm_up()


@pytest.mark.parametrize(
    "name", ["./no/such/folder", "no/such/folder", "/no/such", "a--b", "no such"]
)
@pytest.mark.parametrize(
    "scorer",
    [
        lambda name: CrossEncoderScorer(name, backend="openvino"),
        lambda name: CrossEncoderScorer(name, backend="torch"),
        lambda name: CrossEncoderScorer(name, backend="onnx", local_files_only=True),
    ],
)
def test_names_that_no_model_of_the_hub_can_have(name, scorer):
    with pytest.raises(ModelLoadError) as caught:
        scorer(name).warm_up()
    assert str(caught.value) == (
        f"the model {name!r} cannot be loaded: no such folder, and no valid name of a model on "
        "the hub"
    )


@pytest.mark.parametrize(
    ("error", "revision", "reason"),
    [
        (RevisionNotFoundError, "v2", "it has no revision 'v2' on the hub"),
        (RevisionNotFoundError, None, "it has no revision 'main' on the hub"),
        (
            RepositoryNotFoundError,
            "v2",
            "no such folder, and no such model on the hub, or it needs",
        ),
        (GatedRepoError, "v2", "GatedRepoError: 404 Client Error"),
    ],
)
def test_what_the_hub_lacks(error, revision, reason):
    response = httpx.Response(404, request=httpx.Request("HEAD", "https://hub.invalid/config.json"))
    raised = error("404 Client Error.\nhttps://hub.invalid", response=response)
    message = str(HubModel("some/model", revision).load_error(raised, offline=False))
    assert message.startswith(f"the model 'some/model' cannot be loaded: {reason}")
    assert "hub.invalid" not in message

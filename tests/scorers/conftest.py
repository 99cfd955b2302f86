"""The embedded model is loaded once for each of its settings, which takes most of a second."""

import pytest

from remembered_model import remember_loaded
from tiny_models import write_classifier, write_onnx


@pytest.fixture(scope="module", autouse=True)
def _loaded_once():
    with pytest.MonkeyPatch.context() as patch:
        remember_loaded(patch)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A classifier for all backends. No test may change it."""
    return str(write_onnx(write_classifier(tmp_path_factory.mktemp("model") / "classifier")))

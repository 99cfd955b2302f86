"""The embedded model is loaded once for each of its settings, which takes most of a second."""

import pytest

from remembered_model import remember_loaded


@pytest.fixture(scope="module", autouse=True)
def _loaded_once():
    with pytest.MonkeyPatch.context() as patch:
        remember_loaded(patch)
        yield

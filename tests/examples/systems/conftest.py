"""The reference systems as examples, without any key of this machine's."""

import pytest

from unset_models import MODEL_VARIABLES


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in MODEL_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served(monkeypatch):
    """Puts a scripted model into the place of a real server that the environment names."""

    def serve(model):
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("LLM_MODEL", "served")
        return model

    return serve

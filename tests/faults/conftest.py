"""What all fault tests share: SDKs that are imported, and an environment that is known."""

import contextlib
import importlib
import sys
from pathlib import Path

import pytest

from secondpass import Reranker

sys.path.insert(0, str(Path(__file__).parent))  # for fault_cases.py


@pytest.fixture(scope="session", autouse=True)
def _sdks():
    """Import the SDKs once, so that no deadline has to include it."""
    for name in ("openai", "anthropic", "google.genai"):
        importlib.import_module(name)


@pytest.fixture(scope="session", autouse=True)
def _certificates(tmp_path_factory):
    """No certificate authorities: reading those of the system takes clients a tenth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        patch.delenv("SSL_CERT_FILE", raising=False)
        yield


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Loopback servers are reached without a proxy, and no key is found by chance."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def quick_retries(monkeypatch):
    """Retries that need not be waited for."""
    asking = importlib.import_module("secondpass.asking")
    monkeypatch.setattr(asking, "_FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module")
def closing():
    """Closes the rerankers of a module after its tests, so that no connection stays open."""
    with contextlib.ExitStack() as stack:

        def until_the_end(reranker):
            stack.callback(reranker.close)
            return reranker

        yield until_the_end


@pytest.fixture
def reranker(closing):
    """Makes rerankers that are closed in the end."""
    return lambda **settings: closing(Reranker.from_config(settings))

"""Rerankers by both scoring calls, with a server that answers."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import fake_provider as fake
from decision_answers import KEY, PROVIDERS, answer
from fake_provider import FakeProvider
from secondpass import Reranker

openai = pytest.importorskip("openai")

pytestmark = pytest.mark.skipif(
    not hasattr(openai.AsyncOpenAI, "decisions"), reason="this SDK has no scoring calls yet"
)
asking = importlib.import_module("secondpass.asking.dispatch")

KEY_VARIABLES = ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


@pytest.fixture(scope="module")
def provider():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fake.APIS, "/decisions", "decisions")
        with FakeProvider() as server:
            yield server


@pytest.fixture(autouse=True)
def _environment(monkeypatch, provider):
    """No proxy, no key by chance, and pauses that need not be waited for."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in (*KEY_VARIABLES, "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(asking, "_FIRST_PAUSE", 0.01)
    provider.play(answer())


@pytest.fixture(params=PROVIDERS)
def whose(request):
    return request.param


@pytest.fixture
def make(provider, whose):
    """Makes rerankers that ask the server, and closes them in the end."""
    rerankers: list[Reranker] = []

    def reranker(*, limits: Any = None, whole: Any = None, **settings: Any) -> Reranker:
        method = {
            "type": "decisions",
            "provider": whose,
            "model": "m",
            "base_url": provider.base_url(whose),
            "api_key": KEY,
            **settings,
        }
        method = {name: value for name, value in method.items() if value is not None}
        config = {"method": method, "limits": limits or {}, **(whole or {})}
        rerankers.append(Reranker.from_config(config))
        return rerankers[-1]

    yield reranker
    for one in rerankers:
        one.close()

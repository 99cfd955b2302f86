"""Rerankers by the client of each provider, with a server that answers."""

from __future__ import annotations

from typing import Any

import pytest

from fake_provider import FakeProvider
from fault_fixtures import _closing, _sdks
from rerank_dialects import DIALECTS
from secondpass import Reranker
from sent_texts import KEY

__all__ = ["_closing", "_sdks"]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def provider():
    with FakeProvider() as server:
        yield server


@pytest.fixture
def make(provider, closing, monkeypatch):
    """Makes rerankers that ask once, with a key of the environment."""
    monkeypatch.setenv("MY_KEY", KEY)

    def reranker(flavour: str, **whole: Any) -> Reranker:
        base_url = provider.base_url(flavour)
        service = {"model": "my-model", "base_url": base_url, "api_key_env": "MY_KEY"}
        if flavour in DIALECTS:
            method: dict[str, Any] = {"type": "endpoint", "api": flavour, **service}
        else:
            method = {"type": "graded", "llm": {"type": flavour, **service}}
        return closing(Reranker.from_config({"method": method, "limits": {"retries": 0}, **whole}))

    return reranker

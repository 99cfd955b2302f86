"""The preset tactician, with a server that answers."""

from __future__ import annotations

import contextlib
import importlib

import pytest

from secondpass import Reranker
from tactic_candidates import KEY


@pytest.fixture
def provider(server, monkeypatch):
    """A provider, its key, and nothing else in the environment that clients or presets look at."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_BASE_URL", "TACTICIAN_LLM_MODEL", "TACTICIAN_RERANK_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(
        importlib.import_module("secondpass.runtime.dispatch"), "_FIRST_PAUSE", 0.01
    )
    server.schemaless = []
    server.play()
    return server


@pytest.fixture
def tactician(provider):
    """Makes rerankers of the preset that ask the provider."""
    with contextlib.ExitStack() as stack:

        def make(llm=None, **overrides):
            llm = {"base_url": provider.base_url("openai"), **(llm or {})}
            reranker = Reranker.from_preset("tactician", method={"llm": llm}, **overrides)
            stack.callback(reranker.close)
            return reranker

        yield make

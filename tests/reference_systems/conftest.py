"""What the tests of all reference systems use: one provider a module, and both ways to rank."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from pathlib import Path

import pytest

from fake_provider import FakeProvider
from secondpass import Reranker

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Each row of a table runs by one of the ways of `rank`, in turn; the other is ``long``."""
    for item in items:
        if FOLDER not in item.path.parents or "rank" not in getattr(item, "fixturenames", ()):
            continue
        indices = dict(item.callspec.indices)
        way = indices.pop("rank")
        if indices and (sum(indices.values()) + way) % 2:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="module")
def server():
    with FakeProvider() as server:
        yield server


@pytest.fixture
def provider_with(server, monkeypatch):
    """The provider, with its key alone of what clients and presets read from the environment."""

    def prepare(keys, *unset):
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        for name in unset:
            monkeypatch.delenv(name, raising=False)
        for name, key in keys.items():
            monkeypatch.setenv(name, key)
        dispatch = importlib.import_module("secondpass.asking.dispatch")
        monkeypatch.setattr(dispatch, "_FIRST_PAUSE", 0.01)
        server.schemaless = []
        server.play()
        return server

    return prepare


@pytest.fixture
def preset_maker(provider):
    """Makes makers of a preset's rerankers that ask the provider by one of its APIs."""
    with contextlib.ExitStack() as stack:

        def maker(preset, api):
            def make(llm=None, **overrides):
                llm = {"base_url": provider.base_url(api), **(llm or {})}
                reranker = Reranker.from_preset(preset, method={"llm": llm}, **overrides)
                stack.callback(reranker.close)
                return reranker

            return make

        yield maker


@pytest.fixture(params=["sync", "async"])
def rank(request):
    """Ranks with a reranker, by each of its two ways in."""
    if request.param == "sync":
        return Reranker.rerank
    return lambda *given, **settings: asyncio.run(Reranker.arerank(*given, **settings))

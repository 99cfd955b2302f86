"""What the tests of all reference systems use: one provider a module, and both ways to rank.

A module about one system names its preset in ``PRESET``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from pathlib import Path

import pytest

from fake_provider import FakeProvider
from reference_systems import SYSTEMS
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


@pytest.fixture
def system(request):
    return SYSTEMS[request.module.PRESET]


@pytest.fixture(scope="module")
def server():
    with FakeProvider() as server:
        yield server


@pytest.fixture
def provider(server, system, monkeypatch):
    """The provider, with its key alone of what clients and presets read from the environment."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in system.unset:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(system.variable, system.key)
    dispatch = importlib.import_module("secondpass.asking.dispatch")
    monkeypatch.setattr(dispatch, "_FIRST_PAUSE", 0.01)
    server.schemaless = []
    server.play(system.answer)
    return server


@pytest.fixture
def make(system, provider):
    """Makes rerankers of the preset that ask the provider."""
    with contextlib.ExitStack() as stack:

        def make(llm=None, **overrides):
            llm = {"base_url": provider.base_url(system.api), **(llm or {})}
            reranker = Reranker.from_preset(system.preset, method={"llm": llm}, **overrides)
            stack.callback(reranker.close)
            return reranker

        yield make


@pytest.fixture(params=["sync", "async"])
def rank(request):
    """Ranks with a reranker, by each of its two ways in."""
    if request.param == "sync":
        return Reranker.rerank
    return lambda *given, **settings: asyncio.run(Reranker.arerank(*given, **settings))

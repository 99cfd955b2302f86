"""The environment of rerankers that ask a described API."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from secondpass import Reranker
from secondpass.apis.decision_descriptions import DECISION_APIS
from secondpass.apis.descriptions import APIS

asking = importlib.import_module("secondpass.asking.dispatch")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """No proxy, no key by chance, and pauses that need not be waited for."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for api in (*APIS.values(), *DECISION_APIS.values()):
        for name in api.key_variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(asking, "_FIRST_PAUSE", 0.01)


@pytest.fixture
def build():
    """Makes rerankers by a method, and closes them in the end."""
    rerankers: list[Reranker] = []

    def build(method: Any, limits: Any = None, whole: Any = None) -> Reranker:
        config = {"method": method, "limits": limits or {}, **(whole or {})}
        rerankers.append(Reranker.from_config(config))
        return rerankers[-1]

    yield build
    for one in rerankers:
        one.close()

"""Rerankers by each decision API, with a server that answers."""

from __future__ import annotations

from typing import Any

import pytest

import fake_provider as fake
from decision_answers import KEY, SHAPES, answer
from fake_provider import FakeProvider
from secondpass import Reranker


@pytest.fixture(scope="module")
def provider():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fake.APIS, "/decisions", "decisions")
        patch.setitem(fake.APIS, "/systemone", "decisions")
        with FakeProvider() as server:
            yield server


@pytest.fixture(autouse=True)
def _answering(provider):
    provider.play(answer())


@pytest.fixture(params=SHAPES)
def shape(request):
    return request.param


@pytest.fixture
def make(provider, shape, build):
    """Makes rerankers that ask the server."""

    def reranker(*, limits: Any = None, whole: Any = None, **settings: Any) -> Reranker:
        method = {
            "type": "decisions",
            "api": shape,
            "model": "m",
            "base_url": f"http://127.0.0.1:{provider.port}/{shape}",
            "api_key": KEY,
            "layout": "together",
            "question": "yes_no",
            **settings,
        }
        given = {name: value for name, value in method.items() if value is not None}
        return build(given, limits, whole)

    return reranker

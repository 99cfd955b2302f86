"""Responses of rerank APIs with rows of their own; a right one is :func:`fake_provider.good`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import fake_provider as fake
from fake_provider import Step, http
from rerank_dialects import DIALECTS

KEY = "sk-test-SECRET-123"


def documents(request: fake.Request) -> list[str]:
    """The documents of a request."""
    return [*request.documents.values()]


def tenth(text: str) -> float:
    """A score from 0 to 1 of a text that begins with a number."""
    return fake.by_number(text) / 10


def rows(change: Callable[[list[dict[str, Any]]], Any], score: Callable[..., Any] = tenth) -> Step:
    """A response with rows, best first, that a function has modified."""

    def step(request: fake.Request) -> Iterator[fake.Wire]:
        dialect = DIALECTS[request.flavour]
        scores = [(index, score(text)) for index, text in enumerate(documents(request))]
        scores.sort(key=lambda pair: -pair[1])
        yield http(200, dialect.reply(change(dialect.rows_of(scores))))

    return step


def logit(text: str) -> float:
    return fake.by_number(text) * 2 - 11

"""Responses of rerank APIs: rows of scores, in the envelope of each dialect."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import fake_provider as fake
from fake_provider import Step, http
from rerank_dialects import DIALECTS

KEY = "sk-test-SECRET-123"
SLACK = 20.0
"""Seconds beyond a deadline: more than a busy machine needs, less than a silent server takes."""


def documents(request: fake.Request) -> list[str]:
    """The documents of a request; the first part of the path names its API."""
    return DIALECTS[request.flavour].texts(request.body)


def tenth(text: str) -> float:
    """A score from 0 to 1 of a text that begins with a number."""
    return fake.by_number(text) / 10


def rows_of(
    request: fake.Request, score: Callable[[str], Any] = tenth, shuffled: bool = False
) -> list[dict[str, Any]]:
    """The rows of a right answer: best first, as APIs send them, or in any order."""
    dialect = DIALECTS[request.flavour]
    scores = [(index, score(text)) for index, text in enumerate(documents(request))]
    if shuffled:
        random.Random(len(scores)).shuffle(scores)
    else:
        scores.sort(key=lambda pair: -pair[1])
    return dialect.rows_of(scores)


def envelope(request: fake.Request, rows: Any) -> Any:
    return DIALECTS[request.flavour].reply(rows)


def answer(score: Callable[[str], Any] = tenth, shuffled: bool = False, after: float = 0.0) -> Step:
    """A correct response of the requested API."""

    def step(request: fake.Request) -> Iterator[fake.Wire]:
        if after:
            yield fake.Pause(after)
        yield http(200, envelope(request, rows_of(request, score, shuffled)))

    return step


def rows(change: Callable[[list[dict[str, Any]]], Any], score: Callable[..., Any] = tenth) -> Step:
    """A response with rows modified by a function."""
    return lambda request: [http(200, envelope(request, change(rows_of(request, score))))]


def where(applies: Callable[[fake.Request], bool], step: Step, otherwise: Step | None = None):
    """One step for requests that match a predicate, another for the rest."""
    return lambda request: (step if applies(request) else otherwise or answer())(request)


def logit(text: str) -> float:
    return fake.by_number(text) * 2 - 11

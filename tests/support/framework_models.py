"""Language models of the frameworks, which reply, raise and misbehave by a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import coroutine
from typing import Any

import pytest

import fake_provider as fake
from fault_cases import GROUPS, MARKER, Case
from llm_fault_checks import DEADLINE, KEY
from secondpass.errors import LLMError

_PROBE = [
    {
        "role": "user",
        "content": "".join(f'<doc id="{index}">{index} text</doc>' for index in range(1, 7)),
    }
]


def reply_of(step: fake.Step, messages: list[dict[str, Any]]) -> Any:
    """The reply that a step sends for these messages in OpenAI's dialect; None for no JSON."""
    body = {"messages": messages}
    request = fake.Request(0, "openai", "/openai/v1/chat/completions", {}, body, 0.0)
    wire = b"".join(part for part in step(request) if isinstance(part, bytes))
    head, _, body = wire.partition(b"\r\n\r\n")
    try:
        return json.loads(body) if b" 200 " in head[:13] else None
    except (ValueError, RecursionError):
        return None


def _sayable(case: Case) -> bool:
    """Whether the fault is in what a model says, which needs no HTTP to be said."""
    for step in case.script:
        try:
            message = reply_of(step, _PROBE)["choices"][0]["message"]
            if not isinstance(message["content"], str | None):
                return False
        except (TypeError, LookupError):
            return False
    return True


@cache
def spoken_cases() -> list[tuple[str, Case]]:
    """The cases that a framework's own model object can play, and their groups."""
    return [
        (group, case)
        for group in ("envelope", "payload")
        for case in GROUPS[group]
        if "openai" in case.flavours and _sayable(case)
    ]


class Script:
    """Plays the steps of a case as replies; it counts, as the provider does, what it was asked."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.requests: list[list[dict[str, Any]]] = []

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    def next(self, messages: list[dict[str, Any]]) -> Any:
        """The next reply, in OpenAI's dialect."""
        step = self.case.script[min(len(self.requests), len(self.case.script) - 1)]
        self.requests.append(messages)
        return reply_of(step, messages)


def spoken_config(case: Case) -> dict[str, Any]:
    """The method of a case, and limits; the model comes by another way."""
    return {
        "method": {"type": "graded", **case.method},
        "limits": {"deadline": DEADLINE, "retries": 1, "repair": 1, **case.limits},
    }


def in_turn(
    names: Iterable[str], models: Sequence[type], entries: Sequence[str], turn: int = 0
) -> list[Any]:
    """Each name with each model by each entry point, strict and not; two of these in turn.

    The others are ``long``.
    """
    rows = []
    for number, name in enumerate(names, turn):
        for index, (model, entry, strict) in enumerate(_ways(models, entries)):
            # The second of the two differs from the first in every respect.
            usual = index in {number % 8, 7 - number % 8}
            mode = "strict" if strict else "tolerant"
            rows.append(
                pytest.param(
                    *(name, model, entry, strict),
                    id=f"{name}-{model.__name__}-{entry}-{mode}",
                    marks=() if usual else (pytest.mark.long,),
                )
            )
    return rows


def _ways(models: Sequence[type], entries: Sequence[str]) -> list[tuple[type, str, bool]]:
    return [
        (model, entry, strict) for strict in (False, True) for entry in entries for model in models
    ]


def spoken_runs(models: Sequence[type], entries: Sequence[str], turn: int) -> list[Any]:
    """Each of those cases with each model by each entry point, strict and not; one in turn.

    The others are ``long``.
    """
    ways = _ways(models, entries)
    rows = []
    for number, (group, case) in enumerate(spoken_cases(), turn):
        for index, (model, entry, strict) in enumerate(ways):
            marks = () if index == number % len(ways) else (pytest.mark.long,)
            mode = "strict" if strict else "tolerant"
            name = f"{group}-{case.name}-{model.__name__}-{entry}-{mode}"
            rows.append(pytest.param(case, model, entry, strict, id=name, marks=marks))
    return rows


SECRET = f"{MARKER}, the key {KEY}"
"""What errors of a framework's model may hold, and no report may repeat."""

RAISED: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError(SECRET),
    "KeyError": lambda: KeyError(SECRET),
    "ValueError": lambda: ValueError(SECRET),
    "TimeoutError": lambda: TimeoutError(SECRET),
    "ConnectionError": lambda: ConnectionError(SECRET),
    "OSError": lambda: OSError(5, SECRET),
    "AssertionError": lambda: AssertionError(SECRET),
    "NotImplementedError": NotImplementedError,
    "MemoryError": MemoryError,
    "RecursionError": lambda: RecursionError(SECRET),
    "StopIteration": lambda: StopIteration(SECRET),
    "GeneratorExit": lambda: GeneratorExit(SECRET),
    "CancelledError": lambda: asyncio.CancelledError(SECRET),
    "SystemExit": lambda: SystemExit(SECRET),
    "ExceptionGroup": lambda: ExceptionGroup(SECRET, [ValueError(SECRET)]),
    "LLMError": lambda: LLMError("it is too busy", "rate_limited", retryable=True),
}
"""What a framework's model may raise of its own."""


def raising(make: Callable[[], BaseException]) -> Callable[[], Any]:
    """A function that raises what another makes."""

    def raises() -> Any:
        raise make()

    return raises


PLAIN = Case("a model of a framework's", (), "unchanged", "*", (1, 3))
"""For faults that need no script."""


@coroutine
def a_coroutine(value: object = None) -> Iterator[None]:
    """What an asynchronous function returns, but that Python keeps quiet if it is not awaited.

    It would tell whichever test is under way when the collector finds it.
    """
    yield
    return value


class Odd:
    """Answers what a function makes of nothing; it counts, too."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.requests: list[Any] = []

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.requests)

    def next(self, messages: list[dict[str, Any]]) -> Any:
        """Whatever it is."""
        self.requests.append(messages)
        return self.make()

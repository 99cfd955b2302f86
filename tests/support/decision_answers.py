"""Requests and responses of decision APIs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import fake_provider as fake
from fake_provider import Step, http

SHAPES = ("openai", "systemone", "google")
KEY = "sk-test-SECRET-123"
NUMBERS = ["3 a", "9 b", "5 c"]
_DOCUMENT = re.compile(r'<document(?: id="([^"]*)")?>(.*?)</document>', re.DOTALL)
_NAMED = re.compile(r"the document with the id (\w+)")


def in_turn(names: str, rows: Iterable[Any]) -> pytest.MarkDecorator:
    """Rows of a table, each with one of the shapes in turn; how they are read is a property."""
    several = "," in names
    values = [
        ((*row,) if several else (row,)) + (SHAPES[number % len(SHAPES)],)
        for number, row in enumerate(rows)
    ]
    return pytest.mark.parametrize(f"{names}, shape", values, indirect=["shape"])


def shown(request: fake.Request) -> dict[str, str]:
    """The documents of a request by their labels; ``""`` for one alone."""
    body = request.body
    if "input" in body:
        return dict(_DOCUMENT.findall(body["input"]))
    state = body["state"]
    return state["documents"] if "documents" in state else {"": state["document"]}


def questions(request: fake.Request) -> dict[str, Any]:
    """The questions by their ids."""
    asked = request.body["questions"]
    return asked if isinstance(asked, dict) else {question["name"]: question for question in asked}


def statements(request: fake.Request) -> dict[str, str]:
    """What is asked, by the ids of the questions."""
    return {name: question["instructions"] for name, question in questions(request).items()}


def share(request: fake.Request, instructions: str) -> float:
    """A tenth of the number at the start of the document that a question names."""
    named = _NAMED.search(instructions)
    return fake.by_number(shown(request)["" if named is None else named[1]]) / 10


def distribution(expected: float, levels: int) -> list[float]:
    """Probabilities of levels, lowest first, whose expectation is a share of the highest."""
    place = expected * (levels - 1)
    low = min(int(place), levels - 2)
    return [
        1 - (place - low) if level == low else place - low if level == low + 1 else 0.0
        for level in range(levels)
    ]


def _answer_to(request: fake.Request, name: str, question: Any) -> dict[str, Any]:
    value = share(request, question["instructions"])
    if question["type"] == "predicate":
        return {"type": "predicate", "name": name, "probability": value}
    if question["type"] == "noul":
        return {"type": "noul", "noul": value}
    levels = question.get("levels", question.get("criteria"))
    numbers = distribution(value, len(levels))
    # A stated score and a confidence that would give another order.
    answer = {"type": "score", "score": 1 - value, "confidence": 1 - value}
    if "levels" not in question:
        named = {str(level): number for level, number in enumerate(numbers)}
        return {**answer, "legend": dict(enumerate(levels)), "probabilities": named}
    rows = [
        {"label": level["label"], "value": place + 1, "probability": number}
        for place, (level, number) in enumerate(zip(levels, numbers, strict=True))
    ]
    return {**answer, "name": name, "probabilities": rows}


def right(request: fake.Request) -> dict[str, Any]:
    """A correct answer: a tenth of the number at the start of each document."""
    answers = {
        name: _answer_to(request, name, question) for name, question in questions(request).items()
    }
    usage = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}
    if request.flavour == "google":
        usage = {"total_input_tokens": 70, "total_output_tokens": 7}
    listed = isinstance(request.body["questions"], list)
    return {"model": "m", "answers": [*answers.values()] if listed else answers, "usage": usage}


def answer(change: Callable[[Any, fake.Request], Any] | None = None) -> Step:
    """A correct answer, modified in place by a function."""

    def step(request: fake.Request) -> Iterator[fake.Wire]:
        reply = right(request)
        if change is not None:
            change(reply, request)
        yield http(200, reply)

    return step


def answers_of(reply: Any) -> list[dict[str, Any]]:
    """The answers of a response, in their order."""
    answers = reply["answers"]
    return [*answers.values()] if isinstance(answers, dict) else answers


def each_answer(
    change: Callable[[dict[str, Any]], Any], which: Callable[[int], bool] = lambda index: index == 1
) -> Step:
    """Correct answers, some of them modified in place, by their place in the request."""

    def change_reply(reply: Any, _request: fake.Request) -> None:
        for index, one in enumerate(answers_of(reply)):
            if which(index):
                change(one)

    return answer(change_reply)


def with_probability(value: Any) -> Callable[[dict[str, Any]], None]:
    """Another probability of a yes."""
    return lambda one: one.update({"noul" if "noul" in one else "probability": value})


def with_levels(numbers: Iterable[Any]) -> Callable[[dict[str, Any]], None]:
    """Other probabilities of the levels."""

    def change(one: dict[str, Any]) -> None:
        if isinstance(one["probabilities"], list):
            rows = [{"label": str(n), "value": n, "probability": p} for n, p in enumerate(numbers)]
            one["probabilities"] = rows
        else:
            one["probabilities"] = {str(n): number for n, number in enumerate(numbers)}

    return change

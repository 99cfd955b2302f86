"""Requests and responses of the scoring calls of OpenAI and Gemini."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fake_provider as fake
from fake_provider import Step, http

openai = pytest.importorskip("openai")

PROVIDERS = ("openai", "google")

KEY = "sk-test-SECRET-123"

NUMBERS = ["3 a", "9 b", "5 c"]
_DOC = re.compile(r'<doc id="([^"]*)">(.*?)</doc>', re.DOTALL)


def shown(request: fake.Request) -> dict[str, str]:
    """The documents of a request, by the labels of their fences."""
    return dict(_DOC.findall(request.body["input"]))


def statements(request: fake.Request) -> dict[str, str]:
    """The texts of the questions, by their names."""
    questions = request.body["questions"]
    if isinstance(questions, dict):
        return {name: one["instructions"] for name, one in questions.items()}
    return {question["name"]: question["instructions"] for question in questions}


def right(request: fake.Request) -> dict[str, Any]:
    """A correct answer: a tenth of the number at the start of each document."""
    scores = {label: fake.by_number(text) / 10 for label, text in shown(request).items()}
    if request.flavour == "google":
        answers = {
            name: {"type": "noul", "noul": scores[name], "confidence": max(scores[name], 0.5)}
            for name in statements(request)
        }
        return {"answers": answers, "usage": {"total_input_tokens": 70, "total_output_tokens": 7}}
    return {
        "model": "m",
        "answers": [
            {"type": "predicate", "name": name, "probability": scores[name]}
            for name in statements(request)
        ],
        "usage": {
            "input_tokens": 70,
            "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 77,
        },
    }


def answer(change: Callable[[Any, fake.Request], Any] | None = None) -> Step:
    """A correct answer, modified in place by a function."""

    def step(request: fake.Request) -> Iterator[fake.Wire]:
        reply = right(request)
        if change is not None:
            change(reply, request)
        yield http(200, reply)

    return step


def probability(value: Any, which: Callable[[int], bool] = lambda index: index == 1) -> Step:
    """Another value for the probability of some, by their place in the request."""

    def change(reply: Any, request: fake.Request) -> None:
        answers, name = reply["answers"], "probability"
        if request.flavour == "google":
            answers, name = list(answers.values()), "noul"
        for index, one in enumerate(answers):
            if which(index):
                one[name] = value

    return answer(change)

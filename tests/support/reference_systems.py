"""The systems that ask a language model: their presets, what they rank, and correct replies."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fake_provider as fake

LOGGER = "secondpass"


def says(text):
    """A step: the model's reply is this text."""
    return lambda request: [fake.http(200, fake.envelope(request, text))]


def logged(caplog):
    return [record for record in caplog.records if record.name == LOGGER]


def ids(ranking):
    return [item.id for item in ranking]


# ---------------------------------------------------------------------- what they rank

MEMORIES = ["likes green tea", "lives in Lisbon", "has a dog named Rui", "drinks tea at 7"]
ORIGINALS = [0.31, 0.77, 0.05, 0.42]


def memories(texts=MEMORIES, originals=ORIGINALS):
    return [
        {"id": f"m{at}", "content": text, "score": original, "day": at}
        for at, (text, original) in enumerate(zip(texts, originals, strict=True))
    ]


def passages(count=4, difficulties=()):
    """Numbered passages; those that a difficulty is given for have one."""
    given = [
        {"text": f"passage {at}", "id": f"p{at}", "score": 1 - at / count, "author": "anon"}
        for at in range(count)
    ]
    for one, difficulty in zip(given, difficulties, strict=False):
        one["difficulty"] = difficulty
    return given


def pages(count=4):
    return [
        {"path": f"task-{at}.md", "text": f"Page {at}.", "score": 9.5 - at, "section": "guides"}
        for at in range(count)
    ]


def tactic(name, **fields):
    return {
        "id": name,
        "type": "storage",
        "output": f"{name} output",
        "description": f"how to {name}",
        "tags": ["sql", "backend"],
        "match": ["schema", "hosting"],
        "subtasks": [{"id": "one"}, {"id": "two"}, {"id": "three"}],
        **fields,
    }


def tactics(count=4):
    return [tactic(f"t{index}") for index in range(count)]


def nodes(completed=3, pending=4):
    """The context of a tactician's ranking."""
    done = [
        {
            "id": f"done-{index}",
            "type": "decision",
            "output": f"result {index}",
            "status": "completed",
        }
        for index in range(completed)
    ]
    todo = [
        {"id": f"todo-{index}", "type": "task", "output": f"goal {index}", "status": "pending"}
        for index in range(pending)
    ]
    return done + todo


# ---------------------------------------------------------------------- what the model replies


def grades(*values):
    """The array of index and score that `blended_scores` reads."""
    return says(json.dumps([{"index": at, "score": one} for at, one in enumerate(values)]))


def schema_grades(*values):
    """The scores of the passages, in the form of the schema of `graded_passages`."""
    rows = [{"index": at, "score": one} for at, one in enumerate(values)]
    return says(json.dumps({"grades": rows}))


def last_first(request):
    """All indices, the last first."""
    return says(json.dumps([*range(len(request.labels))][::-1]))(request)


def ids_backwards(request):
    """All ids, the last first."""
    return says(json.dumps(request.labels[::-1]))(request)


# ---------------------------------------------------------------------- the systems


@dataclass(frozen=True)
class System:
    """A system, by the preset that reproduces it.

    Attributes:
        api: that it asks.
        variable: of the key; ``key`` is its value here.
        given: a number of candidates -> these.
        answer: a correct reply about four.
        faults: replies and errors, each with the code of its issue.
        unset: further variables that its client or preset reads.
        level: at which a ranking that is not ok is logged.
        options: of each call.
    """

    preset: str
    api: str
    variable: str
    key: str
    query: str
    given: Callable[[int], list[dict[str, Any]]]
    answer: Any
    faults: Mapping[str, tuple[Any, str]]
    unset: Sequence[str] = ()
    level: int = logging.WARNING
    options: Mapping[str, Any] = field(default_factory=dict)


SYSTEMS = {
    system.preset: system
    for system in (
        System(
            "blended_scores",
            "openai",
            "GROQ_API_KEY",
            "gsk-test-SECRET",
            "what tea?",
            lambda count: memories(MEMORIES[:count], ORIGINALS[:count]),
            grades(0.1, 0.2, 0.3, 0.4),
            {
                "malformed JSON": (
                    says('[{"index": 0, "score": 0.2}, {"index": 1'),
                    "reply_refused",
                ),
                "one out of range": (grades(0.2, 1.2, 0.1, 0.4), "score_out_of_range"),
                "429": (fake.status(429, headers={"Retry-After": "0"}), "rate_limited"),
                "413": (fake.status(413), "too_long"),
            },
        ),
        System(
            "graded_passages",
            "google",
            "GOOGLE_API_KEY",
            "AIza-test-SECRET",
            "what is free will?",
            passages,
            schema_grades(1, 2, 3, 4),
            {
                "500": (fake.status(500), "server_error"),
                "prose": (says("The first passage deserves a 9."), "reply_refused"),
                "one below the scale": (schema_grades(3, -1, 5, 4), "score_out_of_range"),
            },
            ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        ),
        System(
            "listwise_guided",
            "anthropic",
            "ANTHROPIC_API_KEY",
            "sk-ant-test-SECRET",
            "how do I publish to PyPI?",
            pages,
            last_first,
            {
                "no credit": (fake.status(400, "Your credit balance is too low"), "quota"),
                "prose": (says("Page 3 first, then page 1."), "reply_refused"),
            },
            ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"),
            logging.DEBUG,
        ),
        System(
            "listwise_ids",
            "openai",
            "OPENAI_API_KEY",
            "sk-test-SECRET",
            "database for the web shop",
            tactics,
            ids_backwards,
            {
                "no credit": (fake.status(429, error_code="insufficient_quota"), "quota"),
                "prose": (says("t2 is the best, then t0."), "reply_refused"),
                "unknown ids only": (says('["x", "y"]'), "reply_refused"),
            },
            ("OPENAI_BASE_URL", "TACTICIAN_LLM_MODEL", "TACTICIAN_RERANK_LIMIT"),
            options={"context": nodes()},
        ),
    )
}

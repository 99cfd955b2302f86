"""Ways in which a model misbehaves.

``llama_index_peers.py`` sends each case to every reranker in the format that it asks for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from misbehaving_replies import (
    ALL,
    LINES,
    LISTWISE,
    MARKER,
    NEVER,
    PERMUTATION,
    Asked,
    Form,
    Pairs,
    Reply,
    Said,
    Script,
    label_of,
    number_of,
    plain,
)

WORDS = frozenset({LINES, PERMUTATION})
"""Forms that are no JSON."""
ORDERS = frozenset({LISTWISE, PERMUTATION})
"""Forms without grades."""


@dataclass(frozen=True)
class Case:
    """A way to misbehave.

    Attributes:
        say: the reply.
        meant: what the reply plainly states: grades of passages by their numbers, best first.
        without: forms that the case says nothing of.
        batch_size: passages a question, where more than one question is to be asked.
        limits: of ours; none of the others has any.
    """

    name: str
    say: Script
    meant: Mapping[int, float] = field(default_factory=dict)
    without: frozenset[Form] = frozenset()
    batch_size: int | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)


NO_RETRIES = {"retries": 0}
NOTHING: Mapping[int, float] = {}


def text(name: str, reply: str) -> Case:
    """A reply without an answer."""
    return Case(name, lambda _: Said(before=reply))


def around(name: str, before: str, after: str) -> Case:
    """An honest answer, with text around it."""
    return Case(name, lambda asked: Said(asked.honest, before, after), ALL)


def answer(
    name: str,
    change: Callable[[list[tuple[Any, Any]]], Pairs],
    meant: Mapping[int, float] = ALL,
    without: frozenset[Form] = frozenset(),
) -> Case:
    """An answer of the right form, but for what a function changed."""
    return Case(name, lambda asked: Said(change(asked.honest)), meant, without)


def edited(name: str, edit: Callable[[str], str], without: frozenset[Form] = frozenset()) -> Case:
    """An honest answer whose text was changed."""
    return Case(name, lambda asked: Said(asked.honest, edit=edit), ALL, without)


def grades(name: str, *values: Any, meant: Mapping[int, float] = NOTHING) -> Case:
    """Other grades, for the passages from the best to the worst."""

    def changed(honest: list[tuple[Any, Any]]) -> Pairs:
        return [(label, value) for (label, _), value in zip(honest, values, strict=True)]

    return answer(name, changed, meant, ORDERS)


def _one_fails(error: Reply) -> Script:
    return lambda asked: error if f"grade 9: {MARKER}" in asked.sent else Said(asked.honest)


def _labels(asked: Asked) -> list[Any]:
    return [label for label, _ in asked.honest]


def _another(asked: Asked) -> Said:
    """An answer, and behind it another that contradicts it."""
    both = [asked.form.written(one) for one in (asked.honest, _turned(asked.honest))]
    return Said(before="\n\nNo, wait. Rather:\n\n".join(both))


def _turned(honest: list[tuple[Any, Any]]) -> Pairs:
    return [(label, 10 - grade) for label, grade in reversed(honest)]


def _thought(asked: Asked, end: str) -> Said:
    draft = asked.form.written(_turned(asked.honest))
    return Said(asked.honest if end else None, f"<think>Perhaps\n{draft}\nbut no.{end}")


def _half(written: str) -> str:
    return written[: len(written) * 3 // 5]


HONEST = Case("an honest answer", lambda asked: Said(asked.honest), ALL)
"""What all of them can read: the test of the table itself."""

CASES = [
    # What the known failures of LlamaIndex's own are about.
    text("refusal", "I'm sorry, but I can't help with that."),
    text("empty", ""),
    answer("names 2 of 5", lambda h: h[:2], plain(9, 7)),
    answer("names one twice", lambda h: [*h, h[0]]),
    answer("index 0 beside the others", lambda h: [(0, 10), *h]),
    answer("index -7 beside the others", lambda h: [(-7, 10), *h]),
    answer("index 99 beside the others", lambda h: [(99, 10), *h]),
    Case("counts from 0", lambda _: Said(list(zip(range(5), (9, 7, 5, 3, 1), strict=True)))),
    grades("“Relevance: high” for the best", "high", 7, 5, 3, 1, meant=plain(7, 5, 3, 1)),
    grades("“high”, “medium” and “low”", "high", "high", "medium", "low", "low", meant=ALL),
    grades("0.95, 7.9 and -9", 0.95, 7.9, 5, 3, -9, meant={7: 7.9, 5: 5, 3: 3, 9: 0.95, 1: -9}),
    Case("bullets", lambda asked: Said(before="\n".join(
        f"* [{label}] ({grade}/10)" for label, grade in asked.honest)), ALL),
    Case("a numbered list", lambda asked: Said(before="\n".join(
        f"{index}. [{label}]" for index, label in enumerate(_labels(asked), start=1))), ALL),
    Case("JSON pairs", lambda asked: Said(before=json.dumps(
        [{"id": label, "score": grade} for label, grade in asked.honest])), ALL),
    Case("a JSON array of ids", lambda asked: Said(before=json.dumps(_labels(asked))), ALL),
    Case("a reason after each", lambda asked: Said(before="\n".join(
        f"Doc: {label}, Relevance: {grade}, for it names wombats" for label, grade in asked.honest
    )), ALL),
    around("a reason after the answer", "", "\n\nReason: 5 of them, of 1899, name wombats."),
    text("digits in prose", "Result: 4, of the 5 passages: 2 were relevant in 1899."),
    around("digits in prose before the answer", "Of the 5 documents: 1, I think: 4.\n", ""),
    Case("closed <think>", lambda asked: _thought(asked, "</think>\n"), ALL),
    Case("<think> that breaks off", lambda asked: _thought(asked, "")),
    Case("the call fails", lambda _: RuntimeError(f"401 sk-secret-key {MARKER}")),
    Case("the call times out", lambda _: TimeoutError("timed out"), limits=NO_RETRIES),
    Case("no connection", lambda _: ConnectionError("refused"), limits=NO_RETRIES),
    Case("one of three batches fails", _one_fails(RuntimeError("the server failed")),
         plain(7, 5, 3, 1), ORDERS, 2),
    Case("one of three batches refuses", _one_fails(Said(before="I can't say.")),
         plain(7, 5, 3, 1), ORDERS, 2),
    Case("never answers", lambda _: NEVER, limits={"deadline": 0.2}),
    # More of the same kind.
    text("white space", " \n\t\n "),
    text("null", "null"),
    text("an empty object", "{}"),
    text("an empty array", "[]"),
    text("a page of HTML", "<html><body><h1>502 Bad Gateway</h1><p>[1, 2]</p></body></html>"),
    text("two megabytes of apology", "I'm sorry, but I can't help: no, never. " * 50_000),
    text("the example of the prompt", "Doc: 9, Relevance: 7\nDoc: 3, Relevance: 4"),
    Case("says the question again", lambda asked: Said(before=asked.sent)),
    Case("the passages instead of ids", lambda asked: Said(
        [(passage, number_of(passage)) for passage in asked.shown.values()])),
    Case("every id twice", lambda asked: Said([*asked.honest, *asked.honest]), ALL),
    answer("one twice, with two grades", lambda h: [*h, (h[0][0], 1)], plain(7, 5, 3, 1), ORDERS),
    answer("worst first, with the right grades", lambda h: h[::-1], ALL, ORDERS),
    answer("ids backwards", lambda h: [(str(x)[::-1] + "!", g) for x, g in h]),
    answer("ids in capitals", lambda h: [(str(x).upper(), g) for x, g in h]),
    answer("ids with blanks around", lambda h: [(f" {x} ", g) for x, g in h]),
    answer("ids of a hallucination", lambda _: [(50 + index, 9 - index) for index in range(5)],
           NOTHING),
    Case("all with the same grade", lambda asked: Said([(label_of(x), 5) for x in asked.shown]),
         without=ORDERS),
    grades("NaN", 9, math.nan, 5, 3, 1, meant=plain(9, 5, 3, 1)),
    grades("NaN for all", *[math.nan] * 5, meant=ALL),
    grades("infinity", math.inf, 7, 5, 3, 1, meant=plain(7, 5, 3, 1)),
    grades("grades as strings", "9", "7", "5", "3", "1", meant=ALL),
    grades("null, list, object, true", 9, None, [7], {"score": 5}, True, meant={9: 9, 5: 7, 3: 5}),
    grades("grades beyond the scale", 90, 70, 50, 3, 1, meant=plain(3, 1)),
    grades("“9/10”", "9/10", "7/10", "5/10", "3/10", "1/10", meant=ALL),
    grades("a grade of four hundred digits", 10**400, 7, 5, 3, 1, meant=plain(7, 5, 3, 1)),
    around("a code fence", "```json\n", "\n```"),
    around("courtesies", "Certainly! Here is the ranking:\n\n", "\n\nI hope this helps!"),
    edited("cut in the middle", _half),
    edited("without its end", lambda written: written[:-2]),
    Case("cut, and says so", lambda asked: Said(asked.honest, edit=_half, cut=True), ALL),
    edited("single quotes", lambda written: written.replace('"', "'"), WORDS),
    edited("a comma too many", lambda written: written[:-1] + "," + written[-1:], WORDS),
    Case("two answers that differ", _another),
]  # fmt: skip

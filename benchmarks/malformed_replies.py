"""Ways in which a model misbehaves, with what secondpass promises of each.

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
    GRADED,
    LINES,
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


@dataclass(frozen=True)
class Case:
    """A way to misbehave.

    Attributes:
        say: the reply.
        graded: the status that the report of ``graded`` has, and the code of one of its issues.
        listwise: the same of ``listwise``; empty where the case is about grades.
        meant: what the reply plainly states: grades of passages by their numbers, best first.
        without: forms that the case says nothing of.
        batch_size: passages a question, where more than one question is to be asked.
        limits: of ours; none of the others has any.
        by_tool: the promise where a tool is called, if it is another.
    """

    name: str
    say: Script
    graded: str
    listwise: str
    meant: Mapping[int, float] = field(default_factory=dict)
    without: frozenset[Form] = frozenset()
    batch_size: int | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    by_tool: str = ""

    def promised(self, form: Form, *, by_tool: bool = False) -> tuple[str, str]:
        """Status and code of ours; empty strings where the case says nothing of the form."""
        promise = self.graded if form is GRADED else self.listwise
        if by_tool and promise:
            promise = self.by_tool or promise
        status, _, code = promise.partition(" ")
        return status, code


REFUSED = "unchanged reply_refused"
OFF_SCALE = "unchanged score_out_of_range"
EMPTY = "unchanged empty_reply"
NO_RETRIES = {"retries": 0}
NOTHING: Mapping[int, float] = {}


def text(name: str, reply: str, promise: str = REFUSED, **more: Any) -> Case:
    """A reply without an answer."""
    return Case(name, lambda _: Said(before=reply), promise, promise, **more)


def around(name: str, before: str, after: str, promise: str = "ok", **more: Any) -> Case:
    """An honest answer, with text around it."""
    say: Script = lambda asked: Said(asked.honest, before, after)  # noqa: E731
    return Case(name, say, promise, promise, meant=ALL, **more)


def answer(
    name: str, change: Callable[[list[tuple[Any, Any]]], Pairs], graded: str, listwise: str,
    meant: Mapping[int, float] = ALL, **more: Any,
) -> Case:  # fmt: skip
    """An answer of the right form, but for what a function changed."""
    return Case(name, lambda asked: Said(change(asked.honest)), graded, listwise, meant, **more)


def edited(name: str, edit: Callable[[str], str], promise: str, **more: Any) -> Case:
    """An honest answer whose text was changed."""
    say: Script = lambda asked: Said(asked.honest, edit=edit)  # noqa: E731
    return Case(name, say, promise, promise, ALL, by_tool=EMPTY, **more)


def grades(name: str, *values: Any, promise: str, meant: Mapping[int, float] = NOTHING) -> Case:
    """Other grades, for the passages from the best to the worst."""

    def changed(honest: list[tuple[Any, Any]]) -> Pairs:
        return [(label, value) for (label, _), value in zip(honest, values, strict=True)]

    without = frozenset({PERMUTATION})
    return answer(name, changed, promise, "", meant, without=without)


def fault(name: str, error: Exception, promise: str, **more: Any) -> Case:
    """A call that fails."""
    return Case(name, lambda _: error, promise, promise, **more)


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


HONEST = Case("an honest answer", lambda asked: Said(asked.honest), "ok", "ok", ALL)
"""What all of them can read: the test of the table itself."""

CASES = [
    # What the known failures of LlamaIndex's own are about.
    text("refusal", "I'm sorry, but I can't help with that."),
    text("empty", "", EMPTY),
    answer("names 2 of 5", lambda h: h[:2], "partial not_in_reply", "partial not_in_reply",
           plain(9, 7)),
    answer("names one twice", lambda h: [*h, h[0]], "ok", "ok doubled_label"),
    answer("index 0 beside the others", lambda h: [(0, 10), *h], "ok unknown_label",
           "ok unknown_label"),
    answer("index -7 beside the others", lambda h: [(-7, 10), *h], "ok unknown_label",
           "ok unknown_label"),
    answer("index 99 beside the others", lambda h: [(99, 10), *h], "ok unknown_label",
           "ok unknown_label"),
    Case("counts from 0", lambda _: Said(list(zip(range(5), (9, 7, 5, 3, 1), strict=True))),
         REFUSED, REFUSED),
    grades("“Relevance: high” for the best", "high", 7, 5, 3, 1, promise="partial grade_refused",
           meant=plain(7, 5, 3, 1)),
    grades("“high”, “medium” and “low”", "high", "high", "medium", "low", "low",
           promise=REFUSED, meant=ALL),
    grades("0.95, 7.9 and -9", 0.95, 7.9, 5, 3, -9, promise=OFF_SCALE,
           meant={7: 7.9, 5: 5, 3: 3, 9: 0.95, 1: -9}),
    Case("bullets", lambda asked: Said(before="\n".join(
        f"* [{label}] ({grade}/10)" for label, grade in asked.honest)), REFUSED, REFUSED,
        ALL),
    Case("a numbered list", lambda asked: Said(before="\n".join(
        f"{index}. [{label}]" for index, label in enumerate(_labels(asked), start=1))),
        REFUSED, REFUSED, ALL),
    Case("JSON pairs", lambda asked: Said(before=json.dumps(
        [{"id": label, "score": grade} for label, grade in asked.honest])), "ok", "ok",
        ALL),
    Case("a JSON array of ids", lambda asked: Said(before=json.dumps(_labels(asked))), REFUSED,
         "ok", ALL),
    Case("a reason after each", lambda asked: Said(before="\n".join(
        f"Doc: {label}, Relevance: {grade}, for it names wombats" for label, grade in asked.honest
    )), REFUSED, REFUSED, ALL),
    around("a reason after the answer", "", "\n\nReason: 5 of them, of 1899, name wombats."),
    text("digits in prose", "Result: 4, of the 5 passages: 2 were relevant in 1899."),
    around("digits in prose before the answer", "Of the 5 documents: 1, I think: 4.\n", ""),
    Case("closed <think>", lambda asked: _thought(asked, "</think>\n"), "ok", "ok", ALL),
    Case("<think> that breaks off", lambda asked: _thought(asked, ""), REFUSED, REFUSED),
    fault("the call fails", RuntimeError(f"401 sk-secret-key {MARKER}"), "unchanged llm_raised"),
    fault("the call times out", TimeoutError("timed out"), "unchanged", limits=NO_RETRIES),
    fault("no connection", ConnectionError("refused"), "unchanged", limits=NO_RETRIES),
    Case("one of three batches fails", _one_fails(RuntimeError("the server failed")),
         "partial llm_raised", "", plain(7, 5, 3, 1), frozenset({PERMUTATION}), 2),
    Case("one of three batches refuses", _one_fails(Said(before="I can't say.")),
         "partial reply_refused", "", plain(7, 5, 3, 1), frozenset({PERMUTATION}), 2),
    Case("never answers", lambda _: NEVER, "unchanged deadline", "unchanged deadline",
         limits={"deadline": 0.2}),
    # More of the same kind.
    text("white space", " \n\t\n ", EMPTY),
    text("null", "null"),
    text("an empty object", "{}"),
    text("an empty array", "[]"),
    text("a page of HTML", "<html><body><h1>502 Bad Gateway</h1><p>[1, 2]</p></body></html>"),
    text("two megabytes of apology", "I'm sorry, but I can't help: no, never. " * 50_000),
    text("the example of the prompt", "Doc: 9, Relevance: 7\nDoc: 3, Relevance: 4"),
    Case("says the question again", lambda asked: Said(before=asked.sent), REFUSED, REFUSED),
    Case("the passages instead of ids", lambda asked: Said(
        [(passage, number_of(passage)) for passage in asked.shown.values()]), REFUSED, REFUSED),
    Case("every id twice", lambda asked: Said([*asked.honest, *asked.honest]), "ok",
         "ok doubled_label", ALL),
    answer("one twice, with two grades", lambda h: [*h, (h[0][0], 1)], "partial grade_refused",
           "", plain(7, 5, 3, 1), without=frozenset({PERMUTATION}), by_tool="ok"),
    answer("worst first, with the right grades", lambda h: h[::-1], "ok", "", ALL,
           without=frozenset({PERMUTATION})),
    answer("ids backwards", lambda h: [(str(x)[::-1] + "!", g) for x, g in h], REFUSED, REFUSED),
    answer("ids in capitals", lambda h: [(str(x).upper(), g) for x, g in h], "ok", "ok"),
    answer("ids with blanks around", lambda h: [(f" {x} ", g) for x, g in h], "ok", "ok"),
    answer("ids of a hallucination", lambda _: [(50 + index, 9 - index) for index in range(5)],
           REFUSED, REFUSED, NOTHING),
    Case("all with the same grade", lambda asked: Said(
        [(label_of(x), 5) for x in asked.shown]), "ok", "", without=frozenset({PERMUTATION})),
    grades("NaN", 9, math.nan, 5, 3, 1, promise="partial grade_refused", meant=plain(9, 5, 3, 1)),
    grades("NaN for all", *[math.nan] * 5, promise=REFUSED, meant=ALL),
    grades("infinity", math.inf, 7, 5, 3, 1, promise="partial grade_refused",
           meant=plain(7, 5, 3, 1)),
    grades("grades as strings", "9", "7", "5", "3", "1", promise="ok", meant=ALL),
    grades("null, list, object, true", 9, None, [7], {"score": 5}, True,
           promise="partial grade_refused", meant={9: 9, 5: 7, 3: 5}),
    grades("grades beyond the scale", 90, 70, 50, 3, 1, promise=OFF_SCALE,
           meant=plain(3, 1)),
    grades("“9/10”", "9/10", "7/10", "5/10", "3/10", "1/10", promise=REFUSED, meant=ALL),
    grades("a grade of four hundred digits", 10**400, 7, 5, 3, 1,
           promise=OFF_SCALE, meant=plain(7, 5, 3, 1)),
    around("a code fence", "```json\n", "\n```"),
    around("courtesies", "Certainly! Here is the ranking:\n\n", "\n\nI hope this helps!"),
    edited("cut in the middle", lambda written: written[: len(written) * 3 // 5], REFUSED),
    edited("without its end", lambda written: written[:-2], REFUSED),
    Case("cut, and says so", lambda asked: Said(
        asked.honest, edit=lambda written: written[: len(written) * 3 // 5], cut=True),
        "partial not_in_reply", "partial not_in_reply", ALL, by_tool=EMPTY),
    edited("single quotes", lambda written: written.replace('"', "'"), "ok",
           without=WORDS),
    edited("a comma too many", lambda written: written[:-1] + "," + written[-1:], "ok",
           without=WORDS),
    Case("two answers that differ", _another, REFUSED, REFUSED),
]  # fmt: skip

"""About 100 ways in which models spoil a reply, and the order that each still plainly states.

A model is shown five documents and finds ``BEST`` to be their order. A mutation writes that down in
the form that was asked for, spoiled. ``graded`` and ``listwise`` say what a reader may make of it:
``ALL`` for the whole order, ``REFUSE``, or the ranks (0 is the best) that the reply still states;
documents of other ranks follow in the order that they were shown in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

BEST = (3, 1, 4, 0, 2)
"""Positions of the documents, best first."""
GRADES = (9, 7, 6, 4, 2)
"""What they are graded, best first. None of them can be taken for a rank of five."""

REFUSE = "refuse"
ALL = (0, 1, 2, 3, 4)
Expected: TypeAlias = str | tuple[int, ...]

GRADED_FORMS = ("keyed", "pairs", "bare pairs")
LISTED_FORMS = ("permutation", "bare permutation")


@dataclass(frozen=True)
class Answer:
    """What a model wants to say, best first: labels with their numbers, in a form.

    Attributes:
        form: of the reply.
        rows: (label, number).
        key: what a label is called.
        word: what a number is called.
    """

    form: str
    rows: Sequence[tuple[Any, Any]]
    key: str = "id"
    word: str = "score"
    shown: Sequence[str] = field(default=())

    @property
    def numbered(self) -> bool:
        """Whether the form has numbers."""
        return self.form in GRADED_FORMS

    def value(self, rows: Sequence[tuple[Any, Any]] | None = None) -> Any:
        """The answer as JSON."""
        rows = self.rows if rows is None else rows
        if self.form == "keyed":
            return {str(label): number for label, number in rows}
        if self.form in {"pairs", "bare pairs"}:
            created: list[Any] = [{self.key: label, self.word: number} for label, number in rows]
            return {"grades": created} if self.form == "pairs" else created
        created = [label for label, _ in rows]
        return {"ranking": created} if self.form == "permutation" else created

    def text(self, rows: Sequence[tuple[Any, Any]] | None = None) -> str:
        """The same as text."""
        return json.dumps(self.value(rows))

    def with_labels(self, change: Callable[[Any], Any]) -> str:
        return self.text([(change(label), number) for label, number in self.rows])

    def with_numbers(self, change: Callable[[Any], Any]) -> str:
        return self.text([(label, change(number)) for label, number in self.rows])

    def with_first(self, number: Any) -> str:
        """The best one with another number."""
        return self.text([(self.rows[0][0], number), *self.rows[1:]])

    def twisted(self) -> str:
        """Another answer: the best one is the worst."""
        (first, best), *others, (last, worst) = self.rows
        return self.text([(last, best), *others, (first, worst)])

    def lines(self) -> str:
        """One row a line."""
        if self.form == "keyed":
            rows: list[Any] = [{str(label): number} for label, number in self.rows]
        elif self.numbered:
            rows = [{self.key: label, self.word: number} for label, number in self.rows]
        else:
            rows = [{self.key: label} for label, _ in self.rows]
        return "\n".join(map(json.dumps, rows))

    def scored(self, numbers: Sequence[Any]) -> str:
        """Rows of an array with these numbers, whatever the form."""
        pairs = zip(self.rows, numbers, strict=True)
        return json.dumps({"ranking": [{self.key: x, "score": n} for (x, _), n in pairs]})


@dataclass(frozen=True)
class Mutation:
    """A way to spoil a reply, and what it still says."""

    name: str
    write: Callable[[Answer], str]
    graded: Expected
    listwise: Expected

    def expected(self, form: str) -> Expected:
        return self.graded if form in GRADED_FORMS else self.listwise


def both(name: str, expected: Expected, write: Callable[[Answer], str]) -> Mutation:
    return Mutation(name, write, expected, expected)


def graded(name: str, expected: Expected, write: Callable[[Answer], str]) -> Mutation:
    """A mutation of numbers. An order that has none is left as it is."""
    return Mutation(name, lambda a: write(a) if a.numbered else a.text(), expected, ALL)


def listed(name: str, expected: Expected, write: Callable[[Answer], str]) -> Mutation:
    """A mutation of an order. Grades are left as they are."""
    return Mutation(name, lambda a: a.text() if a.numbered else write(a), ALL, expected)


def _unquoted(text: str) -> str:
    return re.sub(r'"(\w+)"', r"\1", text)


def _smart(text: str) -> str:
    return re.sub(r'"([^"]*)"', "\u201c\\1\u201d", text)


def _escaped(text: str) -> str:
    return json.dumps(text)


def _full_width(text: str) -> str:
    return text.translate({ord(str(n)): chr(0xFF10 + n) for n in range(10)})


def _commented(text: str) -> str:
    return text.replace(",", ", // well chosen\n", 1)


def _half(a: Answer) -> str:
    text = a.text()
    return text[: len(text) * 2 // 3]


def _csv(a: Answer) -> str:
    return "\n".join(f"{label},{number}" for label, number in a.rows)


def _table(a: Answer) -> str:
    rows = "\n".join(f"| {label} | {number} |" for label, number in a.rows)
    return f"| id | score |\n| --- | --- |\n{rows}"


MUTATIONS = [
    # wrappings
    both("as asked", ALL, lambda a: a.text()),
    both("code fence", ALL, lambda a: f"```json\n{a.text()}\n```"),
    both("code fence, no language", ALL, lambda a: f"```\n{a.text()}\n```"),
    both("code fence that does not end", ALL, lambda a: f"```json\n{a.text()}"),
    both("prose before", ALL, lambda a: f"Here is my answer:\n{a.text()}"),
    both("prose after", ALL, lambda a: f"{a.text()}\nI hope that this helps."),
    both("prose around", ALL, lambda a: f"Sure!\n\n{a.text()}\n\nAnything else?"),
    both("prose with brackets", ALL, lambda a: f"As [you] asked (best {{first}}): {a.text()}"),
    both("prose with an unclosed bracket", ALL, lambda a: f"My answer [best first: {a.text()}"),
    both("prose with an unclosed brace", ALL, lambda a: f"As {{all the ids: {a.text()}"),
    both("prose with a stray closing one", ALL, lambda a: f"best] first) {a.text()}"),
    both("thinking", ALL, lambda a: f"<think>Hm, {a.twisted()}?</think>{a.text()}"),
    both("thinking that only ends", ALL, lambda a: f"Hm, hard.</think>{a.text()}"),
    both("thinking that does not end", REFUSE, lambda a: f"<think>Hm, {a.text()}"),
    both("byte order mark", ALL, lambda a: f"\ufeff{a.text()}"),
    both("white space", ALL, lambda a: f"\n\n\t {a.text()} \n"),
    both("indented", ALL, lambda a: json.dumps(a.value(), indent=2)),
    both("bold", ALL, lambda a: f"**{a.text()}**"),
    both("a wrapper", ALL, lambda a: json.dumps({"result": a.value()})),
    both("two wrappers", ALL, lambda a: json.dumps({"response": {"result": a.value()}})),
    both("a wrapper with words", ALL, lambda a: json.dumps({"note": "x", "answer": a.value()})),
    both("a strange wrapper", REFUSE, lambda a: json.dumps({"irrelevant": a.value()})),
    both("two wrapped", REFUSE, lambda a: json.dumps({"list": a.value(), "data": [1]})),
    both("JSON in a string", ALL, lambda a: _escaped(a.text())),
    both("JSON in a string, fenced", ALL, lambda a: f"```\n{_escaped(a.text())}\n```"),
    both("JSON in a string in an object", ALL, lambda a: json.dumps({"output": a.text()})),
    both("JSON in a string in a string", REFUSE, lambda a: _escaped(_escaped(a.text()))),
    both("one row a line", ALL, lambda a: a.lines()),
    both("one row a line, fenced", ALL, lambda a: f"```jsonl\n{a.lines()}\n```"),
    both("one row a line, with commas", ALL, lambda a: a.lines().replace("\n", ",\n")),
    both("one row a line, bulleted", ALL, lambda a: "- " + a.lines().replace("\n", "\n- ")),
    both("one row a line, twice", REFUSE, lambda a: f"{a.lines()}\n{a.lines()}"),
    both("one row a line, then all", REFUSE, lambda a: f"{a.lines()}\n{a.twisted()}"),
    # almost JSON
    both("trailing comma", ALL, lambda a: re.sub(r"([}\]])$", r",\1", a.text())),
    both("trailing commas", ALL, lambda a: re.sub(r"([}\]])", r",\1", a.text())),
    both("single quotes", ALL, lambda a: a.text().replace('"', "'")),
    both("no quotes", ALL, lambda a: _unquoted(a.text())),
    both("smart quotes", ALL, lambda a: _smart(a.text())),
    both("a comment", ALL, lambda a: _commented(a.text())),
    both("a comment of a shell", ALL, lambda a: a.text().replace(",", ", # so\n", 1)),
    both("a comment between", ALL, lambda a: a.text().replace(",", ", /* so */", 1)),
    both("a comment after", ALL, lambda a: f"{a.text()} // done"),
    both("a missing comma", ALL, lambda a: a.text().replace(",", "", 1)),
    both("no commas", ALL, lambda a: a.text().replace(",", "")),
    both("two commas", REFUSE, lambda a: a.text().replace(",", ",,", 1)),
    both("an ellipsis", REFUSE, lambda a: re.sub(r"([}\]])$", r", ...\1", a.text())),
    both("a missing bracket", REFUSE, lambda a: a.text()[:-1]),
    both("a bracket of the wrong kind", REFUSE, lambda a: a.text()[:-1] + ")"),
    both("a bracket too many", ALL, lambda a: a.text() + "}"),
    both("broken off", REFUSE, _half),
    both("a row in a comment", REFUSE, lambda a: a.text().replace(",", ', // "q": 3\n', 1)),
    both("a missing quote", REFUSE, lambda a: a.text().replace('"', "", 1)),
    both("raw line ends", ALL, lambda a: a.text().replace(", ", ",\r\n\t")),
    both("raw control characters", ALL, lambda a: a.text().replace(", ", ",\x0b\x00")),
    both("no-break spaces", ALL, lambda a: a.text().replace(", ", ",\u00a0")),
    both("XML", REFUSE, lambda a: "".join(f"<doc><id>{x}</id>{n}</doc>" for x, n in a.rows)),
    both("CSV", REFUSE, _csv),
    both("a table", REFUSE, _table),
    both("lines", REFUSE, lambda a: "\n".join(f"{x}: {n}" for x, n in a.rows)),
    both("a numbered list", REFUSE, lambda a: "\n".join(f"1. {x} ({n})" for x, n in a.rows)),
    both("words", REFUSE, lambda a: f"{a.rows[0][0]} is best, then {a.rows[1][0]}."),
    both("nothing", REFUSE, lambda a: " "),
    both("an apology", REFUSE, lambda a: "I'm sorry, but I can't judge these."),
    both("an error", REFUSE, lambda a: '{"error": {"code": 429, "message": "busy"}}'),
    # labels
    both("labels in capitals", ALL, lambda a: a.with_labels(lambda x: str(x).upper())),
    both("labels in brackets", ALL, lambda a: a.with_labels(lambda x: f"[{x}]")),
    both("labels in angles", ALL, lambda a: a.with_labels(lambda x: f"<{x}>")),
    both("labels after doc", ALL, lambda a: a.with_labels(lambda x: f"doc {x}")),
    both("labels after Document", ALL, lambda a: a.with_labels(lambda x: f"Document {x}")),
    both("labels after id:", ALL, lambda a: a.with_labels(lambda x: f"id: {x}")),
    both("labels after passage_", ALL, lambda a: a.with_labels(lambda x: f"passage_{x}")),
    both("labels after doc, in brackets", ALL, lambda a: a.with_labels(lambda x: f"[doc {x}]")),
    both("labels with spaces", ALL, lambda a: a.with_labels(lambda x: f" {x} ")),
    listed("labels in objects", ALL, lambda a: a.with_labels(lambda x: {a.key: x})),
    listed("labels in arrays", ALL, lambda a: a.with_labels(lambda x: [x])),
    both("labels cut short", REFUSE, lambda a: a.with_labels(lambda x: f"{x}"[:0] + "?")),
    both("ranks for labels", REFUSE, lambda a: a.with_labels(lambda x: f"rank {x}")),
    # which labels
    both("the worst is missing", (0, 1, 2, 3), lambda a: a.text(a.rows[:4])),
    both("two are missing", (0, 2, 3), lambda a: a.text([a.rows[0], *a.rows[2:4]])),
    both("one more", ALL, lambda a: a.text([*a.rows, ("zzz", 3)])),
    both("six more", REFUSE, lambda a: a.text([*a.rows, *((f"zz{n}", 3) for n in range(6))])),
    both("strangers only", REFUSE, lambda a: a.text([("zzz", 3), ("yyy", 2)])),
    listed("one again, lower", ALL, lambda a: a.text([*a.rows, a.rows[0]])),
    both("the same twice", ALL, lambda a: f"{a.text()}\n{a.text()}"),
    both("two answers", REFUSE, lambda a: f"{a.text()}\n{a.twisted()}"),
    both("a correction", REFUSE, lambda a: f"{a.text()}\nNo, wait: {a.twisted()}"),
    both("a correction, broken off", REFUSE, lambda a: f"{a.text()}\nNo: {a.twisted()[:-4]}"),
    both("a correction in quotes", REFUSE,
         lambda a: f"{a.text()}\nNo: " + a.twisted().replace('"', "'")),
    both("a draft, almost JSON", REFUSE, lambda a: f"{_unquoted(a.twisted())}\n{a.text()}"),
    both("two answers in one string", REFUSE, lambda a: _escaped(f"{a.text()}{a.twisted()}")),
    # numbers
    graded("strings", ALL, lambda a: a.with_numbers(str)),
    graded("in arrays", ALL, lambda a: a.with_numbers(lambda n: [n])),
    graded("in objects", ALL, lambda a: a.with_numbers(lambda n: {"value": n})),
    graded("in objects with reasons", ALL,
           lambda a: a.with_numbers(lambda n: {"score": n, "reason": "it says 3 of 5"})),
    graded("floats", ALL, lambda a: a.with_numbers(lambda n: n + 0.5)),
    graded("strings of floats", ALL, lambda a: a.with_numbers(lambda n: f"{n}.25")),
    graded("another scale", REFUSE, lambda a: a.with_numbers(lambda n: n * 10)),
    graded("another scale, partly", REFUSE, lambda a: a.with_numbers(lambda n: (n - 3) * 4)),
    graded("another scale, strings", REFUSE, lambda a: a.with_numbers(lambda n: str(n * 10))),
    graded("percentages", REFUSE, lambda a: a.with_numbers(lambda n: f"{n * 10}%")),
    graded("fractions", REFUSE, lambda a: a.with_numbers(lambda n: f"{n}/10")),
    graded("a fraction", REFUSE, lambda a: a.with_first("9/10")),
    graded("below the scale", REFUSE, lambda a: a.with_first(-1)),
    graded("words", REFUSE, lambda a: a.with_numbers(lambda n: "high" if n > 6 else "low")),
    graded("a word", (1, 2, 3, 4), lambda a: a.with_first("excellent")),
    graded("NaN", (1, 2, 3, 4), lambda a: a.with_first(float("nan"))),
    graded("infinity", (1, 2, 3, 4), lambda a: a.with_first(float("inf"))),
    graded("null", (1, 2, 3, 4), lambda a: a.with_first(None)),
    graded("true", (1, 2, 3, 4), lambda a: a.with_first(True)),
    graded("Python's None", (1, 2, 3, 4),
           lambda a: a.with_first(None).replace("null", "None").replace('"', "'")),
    graded("two numbers", (1, 2, 3, 4), lambda a: a.with_first([9, 1])),
    graded("full-width digits", REFUSE, lambda a: a.with_numbers(lambda n: _full_width(str(n)))),
    graded("twice, differing", (1, 2, 3, 4),
           lambda a: a.text() if a.form != "keyed" else
           a.text()[:-1] + f', "{a.rows[0][0]}": 1}}'),
    # orders with numbers
    listed("numbers that fall", ALL, lambda a: a.scored(GRADES)),
    listed("numbers that fall, strings", ALL, lambda a: a.scored([str(n) for n in GRADES])),
    listed("numbers that fall, arrays", ALL, lambda a: a.scored([[n] for n in GRADES])),
    listed("numbers that rise", REFUSE, lambda a: a.scored(GRADES[::-1])),
    listed("numbers that tie", REFUSE, lambda a: a.scored([9, 9, 6, 4, 2])),
    listed("a number that disagrees", REFUSE, lambda a: a.scored([9, 7, 8, 4, 2])),
    listed("a number that is missing", REFUSE, lambda a: a.scored([9, 7, None, 4, 2])),
    listed("booleans", REFUSE, lambda a: a.scored([True] * 5)),
    listed("ranks of documents", REFUSE,
           lambda a: json.dumps({str(x): n for n, (x, _) in enumerate(a.rows)})),
    listed("arrows", REFUSE, lambda a: " > ".join(f"[{x}]" for x, _ in a.rows)),
    listed("tiers", REFUSE, lambda a: json.dumps([[x for x, _ in a.rows[:2]],
                                                  [x for x, _ in a.rows[2:]]])),
]  # fmt: skip
"""The table. ``graded`` and ``listed`` leave the other kind of form as it is."""


# What mutates numbers says nothing new of forms that have none, and the other way round.
def concerns(mutation: Mutation, form: str) -> bool:
    """Whether the mutation changes replies of the form at all."""
    if mutation.name == "twice, differing" and form != "keyed":
        return False
    if mutation.name == "as asked":
        return True
    sample = Answer(form, [("k4t", 9), ("b2c", 7), ("z9x", 6), ("d7f", 4), ("m3p", 2)])
    return mutation.write(sample) != sample.text()


def order_of(expected: Expected) -> tuple[int, ...]:
    """The ranking that an expectation comes to."""
    if isinstance(expected, str):
        return tuple(range(len(BEST)))
    stated = [BEST[rank] for rank in expected]
    return (*stated, *(index for index in range(len(BEST)) if index not in stated))

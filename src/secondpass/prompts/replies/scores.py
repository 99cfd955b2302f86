"""Readers of scores and orders in JSON.

A reader takes one answer in the format that was asked for, bare or in well-known wrappings, and
refuses what is ambiguous. It never looks for labels or digits in prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.label_lookup import Labels, plain
from secondpass.prompts.replies.json_object import JsonObject
from secondpass.prompts.replies.json_text import (
    Value,
    Values,
    answer_text,
    completed,
    find_values,
    parse_whole,
)
from secondpass.prompts.replies.rows import Row, falling, number_in, row_of
from secondpass.prompts.replies.values import BatchScores, Order
from secondpass.scoring import in_range

T = TypeVar("T")

_WRAPPERS = frozenset(
    [
        *("answer", "answers", "arguments", "content", "data", "docs", "documents", "final"),
        *("final_answer", "grades", "ids", "indices", "input", "items", "json", "list", "message"),
        *("order", "ordered", "output", "parameters", "passages", "payload", "permutation"),
        *("ranked", "ranking", "rankings", "ranks", "ratings", "relevance", "reply", "reranked"),
        *("response", "result", "results", "scores", "sorted"),
    ]
)
"""Keys under which models put what was asked for. Not just any: there are ``irrelevant`` ones."""
_OF_SCORES = frozenset(["grades", "ratings", "relevance", "scores"])
_OF_RANKS = frozenset(
    [
        *("order", "ordered", "permutation", "ranked", "ranking", "rankings", "ranks", "reranked"),
        "sorted",
    ]
)
"""Keys that say what numbers in them are: the higher the better, or the lower."""
_DEEPEST = 3
"""Objects around an answer: the one that was asked for, and two more."""
_FRAME = re.compile(r"[\s`*]*(?:json)?[\s`*]*", re.I)
_LINE_ENDS = re.compile(r"[ \t`*.]*(?:\n|$)")
_BETWEEN_ROWS = re.compile(r"[\s,;]*(?:[-*\u2022]\s+)?")
_PUNCTUATION = re.compile("[\\[\\]{},:\"'\u201c\u201d]")
_MOST_PIECES = 5000


def read_grades(
    completion: Completion,
    labels: Labels,
    low: float,
    high: float,
    *,
    word: str = "score",
    whole: bool = False,
) -> BatchScores:
    """The number that the reply gives each label.

    Args:
        completion: the reply.
        labels: what was graded.
        low: lowest number that can be used.
        high: highest.
        word: the key that stands before a number, in arrays of objects.
        whole: whether only whole numbers can be used.

    Raises:
        ReplyError: it holds none, or more than one set of numbers; it has a number outside the
            scale (``score_out_of_range``); it counts labels from another number, or has more
            unknown labels than were shown.
    """

    def fitting(value: Any, _prose: bool) -> BatchScores | None:
        pairs = _pairs(value, labels, word)
        labels.check_base([label for label, _ in pairs])
        values: list[float | None] = [None] * len(labels)
        refused: set[int] = set()
        unknown: set[str] = set()
        others = 0
        for label, given in pairs:
            number, usable = number_in(given, word)
            place = labels.place(label)
            if place is None:
                others += 1
                if number is not None:
                    unknown.add(plain(str(label)))
                continue
            if number is None:
                refused.add(place)
                continue
            on_scale = in_range(number, (low, high))
            if on_scale is None:
                told = f"it has a {word} outside the range from {low:g} to {high:g}"
                raise ReplyError(told, "score_out_of_range")
            if not usable:
                raise ReplyError(f"it has a {word} with a unit or a scale of its own")
            usable = not (whole and number != int(number))
            if usable and values[place] in {None, on_scale}:
                values[place] = float(on_scale)
            else:
                refused.add(place)
        known = refused | {at for at, value in enumerate(values) if value is not None}
        for place in refused:
            values[place] = None
        if not known:
            return None
        check_unknown(len(unknown), labels)
        return BatchScores(tuple(values), tuple(sorted(refused)), others)

    grades, cut = _only(completion, fitting, "grades", labels, word)
    if all(value is None for value in grades.values):
        raise ReplyError(f"none of its numbers is one from {low:g} to {high:g}")
    return replace(grades, cut=cut)


def read_order(completion: Completion, labels: Labels) -> Order:
    """The order that the reply gives.

    Raises:
        ReplyError: it holds none, or more than one; its rows have numbers that do not fall along
            the list; it counts labels from another number, or has more unknown labels than were
            shown.
    """

    def fitting(value: Any, prose: bool) -> Order | None:
        rows = _listed(value, labels)
        order = order_of([row.label for row in rows], labels)
        if order is None:
            return None
        unknown = {
            plain(str(row.label))
            for row in rows
            if type(row.label) in {str, int, float} and labels.place(row.label) is None
        }
        # Numbers and words in brackets amid prose ("see [3]", "from [0, 1]") are an order only if
        # they are many.
        count = len(order.places)
        few = count < max(3, len(labels) / 2) and count < len(labels)
        if few and prose:
            return None
        if any(row.members for row in rows) and (order.doubled or not falling(rows)):
            raise ReplyError("its rows have numbers that do not fall along the list")
        labels.check_base([row.label for row in rows])
        check_unknown(len(unknown), labels)
        return order

    order, cut = _only(completion, fitting, "ranking", labels, None)
    return replace(order, cut=cut)


def order_of(given: Sequence[Any], labels: Labels) -> Order | None:
    """The order of labels as they were given; None where there is no label."""
    places: dict[int, None] = {}
    doubled = unknown = 0
    for label in given:
        place = labels.place(label)
        if place is None:
            unknown += 1
        elif place in places:
            doubled += 1
        else:
            places[place] = None
    return Order(tuple(places), doubled, unknown) if places else None


def check_unknown(unknown: int, labels: Labels) -> None:
    """Refuse a reply that guesses at labels.

    Raises:
        ReplyError: it has more labels that were not shown than were shown.
    """
    if unknown > len(labels):
        raise ReplyError("it has more labels that were not shown than were shown")


def _only(
    completion: Completion,
    fitting: Callable[[Any, bool], T | None],
    name: str,
    labels: Labels,
    word: str | None,
) -> tuple[T, bool]:
    """The one reading that fits, and whether it is of a reply that broke off."""
    text = answer_text(completion.text)
    values = find_values(text)
    reading: T | None = None
    rows = False
    for value in _with_rows(values, labels, word) if values.found else _lines(text, word):
        prose = (labels.numeric or value.repaired) and _in_prose(text, value)
        other = fitting(value.value, prose)
        if other is None or other == reading:
            continue
        if reading is not None:
            raise ReplyError("it holds more than one JSON value of the form that was asked for")
        reading, rows = other, isinstance(value, _Rows)
    if reading is not None:
        # Rows may go on in what was cut off.
        cut = rows and completion.cut and values.unclosed is not None
        if not cut:
            _check_rest(values, labels)
        return reading, cut
    begun = completed(text) if completion.cut else None
    # What an object with other keys broke off before, nobody knows.
    if not isinstance(begun, JsonObject) or all(
        key == name or labels.place(key) is not None for key in begun
    ):
        reading = None if begun is None else fitting(begun, False)
        if reading is not None:
            return reading, True
    if not text.strip():
        raise ReplyError("it is empty", "empty_reply")
    raise ReplyError("it holds no JSON value of the form that was asked for")


def _in_prose(text: str, value: Value) -> bool:
    """Whether a value is a bare array with words before it, or behind it on its line."""
    if not isinstance(value.value, list):
        return False
    if value.start > 50 or not _FRAME.fullmatch(text, 0, value.start):
        return True
    # Another bracket behind it may go on with what this one begins.
    return _LINE_ENDS.match(text, value.stop) is None or text.find("[", value.stop) >= 0


def _check_rest(values: Values, labels: Labels) -> None:
    """Refuse a reply with an answer in it that can be read, and another that cannot.

    Raises:
        ReplyError: brackets that could not be read stand around labels.
    """
    pieces = 0
    for start, stop in values.unread:
        # A label in square brackets is often one in prose; in braces it is a row of an answer.
        prose = values.text[start] == "[" and start != values.unclosed
        enough = min(2, len(labels)) if prose else 1
        found: set[int] = set()
        at = start
        for match in _PUNCTUATION.finditer(values.text, start, stop):
            pieces += 1
            piece, at = values.text[at : min(match.start(), at + 301)], match.end()
            words = [piece] if prose else [piece, *piece.split()]
            found.update(place for place in map(labels.place, words) if place is not None)
            if not prose and any(map(labels.is_beyond, words)):
                found.add(-1)  # the row would show that labels are counted from another number
            if len(found) >= enough or pieces > _MOST_PIECES:
                raise ReplyError("it holds another answer, which cannot be read")


# ---------------------------------------------------------------------- rows without an array


class _Rows(Value):
    """Values that stand one after the other, read as one array of them."""


def _with_rows(values: Values, labels: Labels, word: str | None) -> Iterator[Value]:
    """The values, with rows that follow one another joined: one label each, all different."""
    run: list[Value] = []
    seen: dict[str, None] = {}
    runs: list[tuple[list[Value], dict[str, None]]] = []
    for value in values.found:
        row = row_of(value.value, labels, word) or _single(value.value, labels, word)
        follows = bool(run) and _BETWEEN_ROWS.fullmatch(values.text, run[-1].stop, value.start)
        if run and (row is None or not follows):
            runs.append((run, seen))
            run, seen = [], {}
        run.append(value)
        if row is None:
            runs.append((run, {}))
            run = []
        else:
            seen[plain(str(row.label))] = None
    if run:
        runs.append((run, seen))
    for run, seen in runs:
        if len(run) > 1 and len(seen) == len(run):
            yield _Rows([value.value for value in run], run[0].start, run[-1].stop)
        else:
            yield from run


def _single(value: Any, labels: Labels, word: str | None) -> Row | None:
    """The row of an array of one label, where an order is read."""
    if word is not None or labels.numeric or not isinstance(value, list) or len(value) != 1:
        return None
    return Row(value[0]) if isinstance(value[0], str) else None


def _lines(text: str, word: str | None) -> Iterator[Value]:
    """The array that a reply of nothing but JSON strings, one in a line, stands for."""
    lines = [line.strip().removesuffix(",") for line in text.strip(" \n`").splitlines()]
    if word is not None or len(lines) < 2 or not all(line[:1] == '"' for line in lines):
        return
    try:
        labels = [json.loads(line) for line in lines]
    except ValueError:
        return
    if all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels):
        yield Value(labels, 0, len(text))


# ---------------------------------------------------------------------- what an answer holds


def _pairs(value: Any, labels: Labels, word: str) -> list[tuple[Any, Any]]:
    """(label, number) as a keyed object, a row or an array of rows holds them."""
    misnamed = _OF_SCORES if word == "rank" else _OF_RANKS
    named = True  # whether numbers without a name of their own are what was asked for
    for _ in range(_DEEPEST + 1):
        if not isinstance(value, JsonObject):
            break
        wrapped = isinstance(value.get("grades"), list | dict)  # though a label may be that word
        if any(labels.place(key) is not None for key in value if not wrapped or key != "grades"):
            # Beside another answer: which of the two counts?
            return value.pairs if named and not wrapped else []
        row = None if wrapped else row_of(value, labels, word)
        if row is not None:
            return row.pairs
        key, value = _inside(value, "grades")
        named = named and key not in misnamed
    if not isinstance(value, list):
        return []
    rows = (
        row_of(one, labels, word)
        for one in value
        if named or (isinstance(one, JsonObject) and word in one)
    )
    return [pair for row in rows if row is not None for pair in row.pairs]


def _listed(value: Any, labels: Labels) -> list[Row]:
    """The rows of an array, each with its label."""
    numbers = False
    for _ in range(_DEEPEST):
        if not isinstance(value, JsonObject):
            break
        key, value = _inside(value, "ranking")
        numbers |= key == "ranks" or key in _OF_SCORES
    # Bare numbers there are those of the documents as they were shown, and no labels.
    if not isinstance(value, list) or (
        numbers and any(number_in(one)[0] is not None for one in value)
    ):
        return []
    # An array of one for each label. Numbers in brackets may be anything.
    if not labels.numeric and all(isinstance(one, list) and len(one) == 1 for one in value):
        value = [inner for (inner,) in value]
    return [
        row_of(one, labels, None) or Row(None) if isinstance(one, list | dict) else Row(one)
        for one in value
    ]


def _inside(value: JsonObject, name: str) -> tuple[str, Any]:
    """What an object wraps, and under which key: that name, else its only one of a like name."""
    keys = [name] if name in value else [key for key in value if key.casefold() in _WRAPPERS]
    if len(keys) != 1 or (value.contested and keys != [name]) or name in value.contested:
        return name, None
    (key,) = keys
    inner = value[key]
    return key.casefold(), parse_whole(inner) if isinstance(inner, str) else inner

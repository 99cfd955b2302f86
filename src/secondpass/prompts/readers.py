"""Strict readers of models' replies.

A reader takes one JSON value of the form that was asked for, bare or in well-known wrappings: a
code fence, a block of thinking before it, prose around it, an object around an array.
It refuses what is ambiguous, and never looks for labels or digits in prose.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from secondpass.effects import Completion
from secondpass.errors import ReplyError

T = TypeVar("T")

_LONGEST = 400_000
"""Characters. A longer reply is no answer to a question about some hundred passages."""

_WRAPPERS = frozenset(
    [
        *("answer", "answers", "data", "docs", "documents", "grades", "ids", "indices", "items"),
        *("list", "order", "ordered", "output", "passages", "permutation", "ranked", "ranking"),
        *("rankings", "ranks", "ratings", "relevance", "reranked", "response", "result", "results"),
        *("scores", "sorted"),
    ]
)
"""Keys under which models put what was asked for. Not just any: there are ``irrelevant`` ones."""
_THOUGHT_ENDS = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.I)
_THOUGHT_BEGINS = re.compile(r"\s*<(?:think|thinking|reasoning|thought)\b", re.I)


class _Object(dict[str, Any]):
    """A JSON object that knows which keys it had with different values."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.contested: set[str] = set()
        for key, value in pairs:
            if key in self and not _same(self[key], value):
                self.contested.add(key)
            self[key] = value


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _whole_number(digits: str) -> float:
    # Python refuses to read whole numbers of thousands of digits; no grade has more than a few.
    return int(digits) if len(digits) < 300 else math.inf


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_whole_number, parse_constant=lambda _name: math.nan
)


@dataclass(frozen=True, slots=True)
class Grades:
    """What an answer says of each document of its question.

    Attributes:
        values: a finite number for each document, or None.
        refused: places of the documents whose value was there and cannot be used.
        unknown: how many things the answer grades that were not asked about.
        cut: whether the answer broke off.
        declined: places of the documents that the model declined to grade.
    """

    values: tuple[float | None, ...]
    refused: tuple[int, ...]
    unknown: int = 0
    cut: bool = False
    declined: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """The order that a reply gave.

    Attributes:
        places: places of labels, best first, each at most once.
        doubled: how many labels it gave again; the first time counts.
        unknown: how many labels it gave that are none.
        cut: whether the reply broke off.
        refused: places of labels whose rank was there and cannot be used.
    """

    places: tuple[int, ...]
    doubled: int
    unknown: int
    cut: bool = False
    refused: tuple[int, ...] = ()


class Labels:
    """Labels by what a model may write for them.

    Args:
        names: as shown; all different, whatever their case.
        first: for labels that are numbers, the first of them; else None.
    """

    def __init__(self, names: Sequence[str], first: int | None) -> None:
        self.names = names
        self.first = first
        self.numeric = all(name.isdecimal() for name in names)
        self._places = {_plain(name): at for at, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.names)

    def place(self, value: object) -> int | None:
        """The place of a label; None for what is none."""
        if isinstance(value, bool):
            return None
        if isinstance(value, float):
            if not value.is_integer() or abs(value) > 1e9:
                return None
            value = int(value)
        if isinstance(value, int):
            value = str(value)
        return self._places.get(_plain(value)) if isinstance(value, str) else None

    def check_base(self, given: Sequence[object]) -> None:
        """Refuse numbers that were counted from another first number than the labels.

        Raises:
            ReplyError: the reply has the number that only the other way of counting has, and lacks
                the one that only this way has.
        """
        if self.first is None:
            return
        written = {str(one).strip() for one in given if not isinstance(one, bool)}
        last = self.first + len(self) - 1
        own, other = (self.first, last + 1) if self.first == 0 else (last, 0)
        if str(other) in written and str(own) not in written:
            raise ReplyError(f"its numbers do not count from {self.first}")


def read_grades(
    completion: Completion,
    labels: Labels,
    low: float,
    high: float,
    *,
    word: str = "score",
    whole: bool = False,
) -> Grades:
    """The number that the reply gives each label.

    Args:
        completion: the reply.
        labels: what was graded.
        low: lowest number that can be used.
        high: highest.
        word: the key that stands before a number, in arrays of objects.
        whole: whether only whole numbers can be used.

    Raises:
        ReplyError: it holds none, or more than one set of numbers.
    """

    def fitting(value: Any) -> Grades | None:
        pairs, contested = _pairs(value, labels, word)
        labels.check_base([label for label, _ in pairs])
        values: list[float | None] = [None] * len(labels)
        refused: set[int] = {at for at in map(labels.place, contested) if at is not None}
        unknown = 0
        for label, number in pairs:
            at = labels.place(label)
            if at is None:
                unknown += 1
            elif (
                not _is_number(number)
                or (whole and number != int(number))
                or not low <= number <= high
                or (values[at] is not None and values[at] != number)
            ):
                refused.add(at)
            else:
                values[at] = float(number)
        for at in refused:
            values[at] = None
        if not refused and all(one is None for one in values):
            return None
        return Grades(tuple(values), tuple(sorted(refused)), unknown)

    grades, cut = _only(completion, fitting, "grades", labels)
    if all(one is None for one in grades.values):
        raise ReplyError(f"none of its numbers is one from {low:g} to {high:g}")
    return Grades(grades.values, grades.refused, grades.unknown, cut)


def read_order(completion: Completion, labels: Labels) -> Order:
    """The order that the reply gives.

    Raises:
        ReplyError: it holds none, or more than one.
    """
    plain = completion.text.strip()[:1] in {"{", "[", "`"}

    def fitting(value: Any) -> Order | None:
        given = _array(value, "ranking")
        if given is None:
            return None
        given = [_label_in(one, alone=True) for one in given]
        labels.check_base(given)
        places: dict[int, None] = {}
        doubled = unknown = 0
        for one in given:
            at = labels.place(one)
            if at is None:
                unknown += 1
            elif at in places:
                doubled += 1
            else:
                places[at] = None
        # Numbers in brackets amid prose ("see [3]", "from [0, 1]") are an order only if they are
        # many.
        few = len(places) < max(3, len(labels) / 2) and len(places) < len(labels)
        if labels.numeric and few and not plain:
            return None
        return Order(tuple(places), doubled, unknown) if places else None

    order, cut = _only(completion, fitting, "ranking", labels)
    return Order(order.places, order.doubled, order.unknown, cut)


def _only(
    completion: Completion, fitting: Callable[[Any], T | None], name: str, labels: Labels
) -> tuple[T, bool]:
    """The one reading that fits, and whether it is of a reply that broke off."""
    text = _without_thoughts(completion.text)
    found: T | None = None
    for value in _values(text):
        reading = fitting(value)
        if reading is None or reading == found:
            continue
        if found is not None:
            raise ReplyError("it holds more than one JSON value of the form that was asked for")
        found = reading
    if found is not None:
        return found, False
    begun = _completed(text) if completion.cut else None
    # What an object with other keys broke off before, nobody knows.
    if not isinstance(begun, _Object) or all(
        key == name or labels.place(key) is not None for key in begun
    ):
        reading = fitting(begun)
        if reading is not None:
            return reading, True
    if not text.strip():
        raise ReplyError("it is empty", "empty_reply")
    raise ReplyError("it holds no JSON value of the form that was asked for")


def _without_thoughts(text: str) -> str:
    if len(text) > _LONGEST:
        raise ReplyError("it is too long")
    if not _THOUGHT_BEGINS.match(text):
        # Some servers cut off the beginning tag. But an end may also be quoted behind the answer,
        # so what stands before it counts: two answers that differ are none.
        return text
    end = _THOUGHT_ENDS.search(text)
    if end is None:
        raise ReplyError("it ends in the middle of thinking")
    return text[end.end() :]


def _values(text: str) -> list[Any]:
    """The JSON objects and arrays in a text that do not stand inside another bracket."""
    values: list[Any] = []
    at = 0
    while found := _BRACKET.search(text, at):
        try:
            value, at = _DECODER.raw_decode(text, found.start())
            values.append(value)
        except RecursionError:
            raise ReplyError("it is nested too deeply") from None
        except ValueError:
            # Prose in brackets, or broken JSON. What stands inside broken JSON is not trusted.
            end = _closing(text, found.start())
            if end is None:
                break
            at = end
    return values


_BRACKET = re.compile(r"[{\[]")
# A string that does not end reaches to the end: to try each of its quotes anew would take for ever.
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],]', re.S)


def _closing(text: str, start: int) -> int | None:
    """The end of what opens at ``start``; None where it does not close."""
    depth = 0
    for found in _STEP.finditer(text, start):
        if found[0] in "{[":
            depth += 1
        elif found[0] in "}]":
            depth -= 1
            if depth == 0:
                return found.end()
    return None


def _completed(text: str) -> Any:
    """The JSON value that begins in ``text`` and breaks off, up to its last whole element."""
    found = _BRACKET.search(text)
    if found is None:
        return None
    open_: list[str] = []
    last: tuple[int, str] | None = None
    for step in _STEP.finditer(text, found.start()):
        if step[0] in "{[":
            open_.append("}" if step[0] == "{" else "]")
        elif step[0] in "}]":
            if not open_ or open_.pop() != step[0]:
                return None
        elif step[0] == ",":
            last = step.start(), "".join(reversed(open_))
    if last is None:
        return None
    try:
        return _DECODER.decode(text[found.start() : last[0]] + last[1])
    except (ValueError, RecursionError):
        return None


def _pairs(value: Any, labels: Labels, word: str) -> tuple[list[tuple[Any, Any]], set[str]]:
    """(label, number) as a keyed object or an array of objects holds them, and contested keys."""
    if isinstance(value, _Object):
        wrapped = isinstance(value.get("grades"), list | dict)  # though a label may be that word
        if not wrapped and any(labels.place(key) is not None for key in value):
            return list(value.items()), value.contested
        inner = _inside(value, "grades")
        if isinstance(inner, _Object) and any(labels.place(key) is not None for key in inner):
            return list(inner.items()), inner.contested
        value = inner
    if not isinstance(value, list):
        return [], set()
    return [
        (_label_in(one), one.get(word)) for one in value if isinstance(one, _Object) and word in one
    ], set()


def _array(value: Any, name: str) -> list[Any] | None:
    if isinstance(value, _Object):
        value = _inside(value, name)
    return value if isinstance(value, list) else None


def _inside(value: _Object, name: str) -> Any:
    """What an object wraps: its member of that name, else its only one of a like name."""
    if name in value:
        return None if name in value.contested else value[name]
    inner = [one for key, one in value.items() if key.casefold() in _WRAPPERS]
    return inner[0] if len(inner) == 1 and not value.contested else None


def _label_in(value: Any, alone: bool = False) -> Any:
    """The label in an object such as ``{"id": "k4t"}``; what is no object as it is.

    With ``alone``, not of an object with a number beside: its order may be by that.
    """
    if not isinstance(value, Mapping):
        return value
    for name in ("id", "index"):
        if name in value:
            rest = [one for key, one in value.items() if key != name]
            return None if alone and any(map(_is_number, rest)) else value[name]
    return None


def _is_number(value: object) -> bool:
    return type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]


def _plain(label: str) -> str:
    return re.sub(r"\s+", " ", label).strip().casefold()

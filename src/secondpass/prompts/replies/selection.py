"""Selects the one JSON value of a reply that answers its question, and reads its rows.

A row is a label with a number or with words, in the notations of models.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels, folded
from secondpass.prompts.replies.json_text import (
    JsonObject,
    LocatedValue,
    Values,
    completed,
    find_values,
    parse_whole,
)
from secondpass.prompts.replies.thinking import ReplyParts, split_reply
from secondpass.questions import Completion, Span

T = TypeVar("T")
Parse: TypeAlias = Callable[[Any, bool], T | None]
"""Reads an answer from a JSON value and whether it is in prose; None if it is no answer."""

_BEFORE = re.compile(r"[\s`*]*(?:json)?[\s`*]*", re.I)
_MAX_BEFORE = 50
_LINE_END = re.compile(r"[ \t`*.]*(?:\n|$)")
_FRAME = re.compile(r"[\s`*\ufeff]*(?:json[\s`*]*)?", re.I)
"""What may stand before an answer that is first: white space and a code fence."""
_END = re.compile(r"[\s`*.]*")
_PUNCTUATION = re.compile("[\\[\\]{},:\"'\u201c\u201d]")
_MAX_PIECES = 5000
_MAX_PIECE_LENGTH = 301  # one more than a label may have


class Asked(NamedTuple):
    """What the request asks for.

    Attributes:
        labels: of the documents.
        key: of the answer: ``ranking`` or ``grades``.
        word: key of the number of each label, such as ``score``; None if an order is asked for.
    """

    labels: Labels
    key: str
    word: str | None

    @property
    def is_order(self) -> bool:
        """Whether an order is asked for, and no numbers."""
        return self.word is None


def order_asked(labels: Labels) -> Asked:
    """The request for an order."""
    return Asked(labels, "ranking", None)


def numbers_asked(labels: Labels, word: str) -> Asked:
    """The request for a number of each label, under the key ``word``."""
    return Asked(labels, "grades", word)


def only_answer(completion: Completion, parse: Parse[T], asked: Asked) -> T:
    """The only answer that a reply holds.

    Raises:
        ReplyError: the reply holds no answer, or several that differ; or it broke off, and its
            answer may be a draft.
    """

    def read(doubtful: str) -> T | None:
        found = _find(doubtful, parse, asked)
        _check_rest(found.values, found.values.unread, asked.labels)
        return found.answer

    parts = split_reply(completion.text)
    found = _find(parts.answer, parse, asked)
    answer = found.answer
    if answer is not None:
        values = found.values
        goes_on = completion.cut and _goes_on(found)
        if completion.cut and not goes_on:
            places = [(value.start, value.stop) for value in found.stated_by]
            check_cut(parts, places, is_open=values.unclosed is not None)
        _check_rest(values, values.broken if goes_on else values.unread, asked.labels)
    elif completion.cut:
        answer = _begun(parts.answer, parse, asked)
    parts.check_doubtful(answer, read)
    if answer is not None:
        return answer
    if not parts.answer.strip():
        raise ReplyError("it is empty", "empty_reply")
    raise ReplyError("it holds no JSON value of the form that was asked for")


class _Found(NamedTuple, Generic[T]):
    """What a text holds: an answer, the values that state it, and all values."""

    answer: T | None
    stated_by: Sequence[LocatedValue]
    values: Values


def _find(text: str, parse: Parse[T], asked: Asked) -> _Found[T]:
    """The answer of a text; a ReplyError if it has several that differ."""
    values = find_values(text)
    answer: T | None = None
    stated_by = []
    for value in join_rows(values, asked) if values.items else string_lines(text, asked):
        in_prose = asked.labels.numeric and _in_prose(text, value)
        other = parse(value.value, in_prose)
        if other is None:
            continue
        if answer not in (None, other):
            raise ReplyError("it holds more than one JSON value of the form that was asked for")
        answer = other
        stated_by.append(value)
    return _Found(answer, stated_by, values)


def _begun(text: str, parse: Parse[T], asked: Asked) -> T | None:
    """The answer that a text begins, up to its last complete element; None if there is none."""
    begun = completed(text)
    # An object with other keys may have had another answer after the cut.
    if begun is None or (
        isinstance(begun, JsonObject)
        and any(key != asked.key and asked.labels.place(key) is None for key in begun)
    ):
        return None
    return parse(begun, False)


def _goes_on(found: _Found[T]) -> bool:
    """Whether rows are followed by one that broke off."""
    last, values = found.stated_by[-1], found.values
    return (
        isinstance(last, JoinedRows)
        and values.unclosed is not None
        and _BETWEEN_ROWS.fullmatch(values.text, last.stop, values.unclosed) is not None
    )


def check_cut(parts: ReplyParts, places: Sequence[Span], *, is_open: bool) -> None:
    """Raise ReplyError if the answer in a reply that broke off may be a draft.

    Small models explain their answer until the limit. But where text stands before it, too, or a
    bracket behind it is open, the final answer may have followed.

    Args:
        parts: of the reply.
        places: (start, stop) of each place where it states the answer.
        is_open: whether a bracket is open at its end.
    """
    if is_open:
        raise ReplyError("it broke off in a bracket behind its answer, which may begin another")
    for start, stop in places:
        is_first = _FRAME.fullmatch(parts.answer, 0, start) and not parts.follows_thinking
        is_last = _END.fullmatch(parts.answer, stop) and not parts.ends_in_thinking
        if is_first or is_last:
            return
    raise ReplyError("it broke off, and its answer may be a draft")


def _in_prose(text: str, value: LocatedValue) -> bool:
    """Whether a value is a bare array with words before it, or after it on its line."""
    if not isinstance(value.value, list):
        return False
    if value.start > _MAX_BEFORE or not _BEFORE.fullmatch(text, 0, value.start):
        return True
    # An array after it may continue it.
    return _LINE_END.match(text, value.stop) is None or text.find("[", value.stop) >= 0


def _check_rest(values: Values, unread: Sequence[Span], labels: Labels) -> None:
    """Raise ReplyError if there are labels in brackets that could not be read."""
    pieces = 0
    for start, stop in unread:
        # A label in square brackets is often prose; in braces it is a row of an answer.
        prose = values.text[start] == "[" and start != values.unclosed
        enough = min(2, len(labels)) if prose else 1
        places: set[int] = set()
        position = start
        for match in _PUNCTUATION.finditer(values.text, start, stop):
            pieces += 1
            piece = values.text[position : min(match.start(), position + _MAX_PIECE_LENGTH)]
            position = match.end()
            words = [piece] if prose else [piece, *piece.split()]
            places.update(place for place in map(labels.place, words) if place is not None)
            if not prose and any(map(labels.is_beyond, words)):
                places.add(-1)  # this row would show that indices count from another number
            if len(places) >= enough or pieces > _MAX_PIECES:
                raise ReplyError("it holds another answer, which cannot be read")


# ---------------------------------------------------------------------- rows

_NUMBER = re.compile(
    r"[+-]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:e[+-]?\d{1,5})?", re.A | re.I
)
# After the number in a string such as "7/10", "70 %" or "7 points".
_UNIT = re.compile(r"\s*(?:[%/]|out of\b|of\b|points?\b|pts?\b|percent\b)", re.I)
# In tuples, here and below, or the formatter would give each word a line.
_SCORE_KEYS = frozenset(["score", "grade", "rating", "relevance"])
_REMARK_KEYS = frozenset(
    [
        *("why", "reason", "reasons", "reasoning", "explanation", "justification", "rationale"),
        *("comment", "note", "notes", "title", "text", "passage", "document", "content"),
        *("summary", "snippet", "name", "description"),
    ]
)
"""Keys of remarks beside a label or a number."""
_LOW_IS_GOOD = frozenset(
    [
        *("rank", "ranking", "position", "pos", "place", "placement", "order", "number", "no"),
        *("index", "id", "tier", "distance", "cost", "#"),
    ]
)
"""Words in keys of numbers of which the lowest is the best."""
_BETWEEN_ROWS = re.compile(r"[\s,;]*(?:[-*\u2022]\s+)?")
_KEY_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|#")


class Row(NamedTuple):
    """One label of an answer."""

    label: Any  # as in the reply; None if the row has none
    pairs: Sequence[tuple[Any, Any]] = ()  # (label, number) of this row, as in the reply
    members: Sequence[tuple[str, Any]] = ()
    """(key, value) of all other members of the row, except for remarks."""


def row_of(value: Any, asked: Asked) -> Row | None:
    """``{"id": label, …}`` as a row, or ``{label: number}`` if numbers are asked for; or None."""
    labels, word = asked.labels, asked.word
    if not isinstance(value, JsonObject):
        return None
    key = next((name for name in ("id", "index") if name in value), None)
    # One of the two may only count the rows.
    both = labels.first is not None and "id" in value and "index" in value
    if both and labels.place(value["id"]) != labels.place(value["index"]):
        return Row(None, [], [(str(key), None)])
    if key is not None and (word is None or word in value):
        return _named_row(value, key, word)
    if word is not None and len(value.pairs) == 1 and labels.place(value.pairs[0][0]) is not None:
        return Row(value.pairs[0][0], value.pairs)
    return None


def _named_row(value: JsonObject, key: str, word: str | None) -> Row:
    label = _label(value[key])
    if key in value.contested:
        pairs = [(_label(label), None) for name, label in value.pairs if name == key]
        return Row(None, pairs, [(key, None)])
    if word is not None:
        return Row(label, [(label, None if word in value.contested else value[word])])
    rest = [pair for pair in value.pairs if pair[0] != key]
    return Row(label, [], [pair for pair in rest if not _is_remark(*pair)])


def _label(value: Any) -> Any:
    """Take a label out of an array of one, or out of ``{"id": …}``."""
    for _ in range(2):
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        elif isinstance(value, JsonObject) and len(value.pairs) == 1:
            ((name, inner),) = value.pairs
            if name not in {"id", "index"}:
                return None
            value = inner
    return None if isinstance(value, list | dict) else value


def _is_remark(name: str, value: Any) -> bool:
    return (
        name.casefold() in _REMARK_KEYS and isinstance(value, str) and number_in(value)[0] is None
    )


def falling(rows: Sequence[Row]) -> bool:
    """Whether each row has one number of one meaning, and these fall along the list."""
    numbers: list[float] = []
    keys: set[str] = set()
    for row in rows:
        if len(row.members) != 1:
            return False
        ((name, value),) = row.members
        if any(part.lower() in _LOW_IS_GOOD for part in _KEY_PARTS.findall(name)):
            return False
        number, usable = number_in(value)
        if number is None or not usable:
            return False
        numbers.append(number)
        keys.add(name.casefold())
    if len(keys) != 1:
        return False
    return all(number > following for number, following in itertools.pairwise(numbers))


def number_in(value: Any, word: str = "score") -> tuple[float | None, bool]:
    """The finite number that a value states, and whether it can be used.

    ``7``, ``"7"``, ``[7]`` and ``{"value": 7}`` state 7. ``"70%"`` and ``"7/10"`` state a number
    that cannot be used, but shows which scale was meant. ``{"score": 7}`` states no rank, and
    ``{"rank": 7}`` no score.
    """
    keys = {"value", word} | (_SCORE_KEYS if word in _SCORE_KEYS else set())
    for _ in range(3):
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        elif isinstance(value, JsonObject):
            numbers = [pair for pair in value.pairs if not _is_remark(*pair)]
            if len(numbers) != 1 or numbers[0][0].casefold() not in keys:
                return None, False
            value = numbers[0][1]
        else:
            break
    if isinstance(value, str):
        return _spelled(value.strip())
    if type(value) not in {int, float} or not math.isfinite(value):
        return None, False
    return value, True


def _spelled(text: str) -> tuple[float | None, bool]:
    match = _NUMBER.match(text)
    if match is None:
        return None, False
    whole = match.end() == len(text)
    if not whole and not _UNIT.match(text, match.end()):
        return None, False
    number = float(match[0])
    return (number, whole) if math.isfinite(number) else (None, False)


class JoinedRows(LocatedValue):
    """Successive rows, read as one array."""


def join_rows(values: Values, asked: Asked) -> Iterator[LocatedValue]:
    """The values of a reply, with successive rows of different labels joined."""
    run: list[LocatedValue] = []
    seen: dict[str, None] = {}
    runs: list[tuple[list[LocatedValue], dict[str, None]]] = []
    for value in values.items:
        row = row_of(value.value, asked) or _single_label(value.value, asked)
        follows = bool(run) and _BETWEEN_ROWS.fullmatch(values.text, run[-1].stop, value.start)
        if run and (row is None or not follows):
            runs.append((run, seen))
            run, seen = [], {}
        run.append(value)
        if row is None:
            runs.append((run, {}))
            run = []
        else:
            seen[folded(str(row.label))] = None
    if run:
        runs.append((run, seen))
    for run, seen in runs:
        if len(run) > 1 and len(seen) == len(run):
            yield JoinedRows([value.value for value in run], run[0].start, run[-1].stop)
        else:
            yield from run


def _single_label(value: Any, asked: Asked) -> Row | None:
    """The row of an array of one label, if an order is asked for."""
    if not asked.is_order or asked.labels.numeric or not isinstance(value, list) or len(value) != 1:
        return None
    return Row(value[0]) if isinstance(value[0], str) else None


def string_lines(text: str, asked: Asked) -> Iterator[LocatedValue]:
    """The array of a reply of only JSON strings, one per line, if an order is asked for."""
    lines = [line.strip().removesuffix(",") for line in text.strip(" \n`").splitlines()]
    if not asked.is_order or len(lines) < 2 or not all(line[:1] == '"' for line in lines):
        return
    try:
        labels = [json.loads(line) for line in lines]
    except ValueError:
        return
    if all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels):
        yield LocatedValue(labels, 0, len(text))


# ---------------------------------------------------------------------- objects around rows


_WRAPPERS = frozenset(
    [
        *("answer", "answers", "arguments", "content", "data", "docs", "documents", "final"),
        *("final_answer", "grades", "ids", "indices", "input", "items", "json", "list", "message"),
        *("order", "ordered", "output", "parameters", "passages", "payload", "permutation"),
        *("ranked", "ranking", "rankings", "ranks", "ratings", "relevance", "reply", "reranked"),
        *("response", "result", "results", "scores", "sorted"),
    ]
)
"""Keys under which models put an answer. Not any key: there are ``irrelevant`` ones."""
_SCORE_WRAPPERS = frozenset(["grades", "ratings", "relevance", "scores"])
"""Keys of numbers of which the highest is the best."""
_RANK_WRAPPERS = frozenset(
    [
        *("order", "ordered", "permutation", "ranked", "ranking", "rankings", "ranks", "reranked"),
        "sorted",
    ]
)
"""Keys of numbers of which the lowest is the best."""
_MAX_DEPTH = 3  # objects around an answer: the one that was asked for, and two more


def score_pairs(value: Any, labels: Labels, word: str) -> Sequence[tuple[Any, Any]]:
    """(label, number) of a keyed object, a row or an array of rows, as in the reply."""
    asked = numbers_asked(labels, word)
    misleading = _SCORE_WRAPPERS if word == "rank" else _RANK_WRAPPERS
    trusted = True  # whether numbers without a key are scores or ranks, as requested
    for _ in range(_MAX_DEPTH + 1):
        if not isinstance(value, JsonObject):
            break
        wrapped = isinstance(value.get("grades"), list | dict)  # a label may be that word
        if any(labels.place(key) is not None for key in value if not wrapped or key != "grades"):
            # With another answer beside it, it is ambiguous which one counts.
            return value.pairs if trusted and not wrapped else []
        row = None if wrapped else row_of(value, asked)
        if row is not None:
            return row.pairs
        key, value = _unwrap(value, "grades")
        trusted = trusted and key not in misleading
    if not isinstance(value, list):
        return []
    rows = (
        row_of(item, asked)
        for item in value
        if trusted or (isinstance(item, JsonObject) and word in item)
    )
    return [pair for row in rows if row is not None for pair in row.pairs]


def order_rows(value: Any, labels: Labels) -> list[Row]:
    """The rows of an array, each with its label."""
    holds_numbers = False
    for _ in range(_MAX_DEPTH):
        if not isinstance(value, JsonObject):
            break
        key, value = _unwrap(value, "ranking")
        if key == "ranks" or key in _SCORE_WRAPPERS:
            holds_numbers = True
    if not isinstance(value, list):
        return []
    if holds_numbers and any(number_in(item)[0] is not None for item in value):
        return []  # scores or ranks of the documents as shown, not labels
    # An array for each label. Numbers in brackets may be anything.
    if not labels.numeric and all(isinstance(item, list) and len(item) == 1 for item in value):
        value = [label for (label,) in value]
    rows, asked = [], order_asked(labels)
    for item in value:
        if isinstance(item, list | dict):
            rows.append(row_of(item, asked) or Row(None))
        else:
            rows.append(Row(item))
    return rows


def _unwrap(value: JsonObject, name: str) -> tuple[str, Any]:
    """The key and value of ``name``, else of the only key that is a usual wrapper."""
    keys = [name] if name in value else [key for key in value if key.casefold() in _WRAPPERS]
    if len(keys) != 1 or (value.contested and keys != [name]) or name in value.contested:
        return name, None
    (key,) = keys
    inner = value[key]
    return key.casefold(), parse_whole(inner) if isinstance(inner, str) else inner

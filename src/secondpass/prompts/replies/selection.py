"""Selects the one JSON value of a reply that answers its question."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.replies.json_object import JsonObject
from secondpass.prompts.replies.json_text import Value, Values, answer_text, completed, find_values
from secondpass.prompts.replies.rows import JoinedRows, join_rows, string_lines

T = TypeVar("T")
Parse: TypeAlias = Callable[[Any, bool], T | None]
"""Reads an answer from a JSON value and whether it is in prose; None if it is no answer."""

_BEFORE = re.compile(r"[\s`*]*(?:json)?[\s`*]*", re.I)
_MAX_BEFORE = 50
_LINE_END = re.compile(r"[ \t`*.]*(?:\n|$)")
_PUNCTUATION = re.compile("[\\[\\]{},:\"'\u201c\u201d]")
_MAX_PIECES = 5000
_MAX_PIECE_LENGTH = 301  # one more than a label may have


def only_answer(
    completion: Completion, parse: Parse[T], name: str, labels: Labels, word: str | None
) -> tuple[T, bool]:
    """The only answer that a reply holds, and whether it broke off.

    Args:
        completion: the reply.
        parse: reads an answer from a value.
        name: the key that the request asks for.
        labels: of the question.
        word: key of the numbers; None if an order is read.

    Raises:
        ReplyError: the reply holds no answer, or several that differ.
    """
    text = answer_text(completion.text)
    values = find_values(text)
    answer: T | None = None
    joined = False
    for value in join_rows(values, labels, word) if values.items else string_lines(text, word):
        in_prose = (labels.numeric or value.repaired) and _in_prose(text, value)
        other = parse(value.value, in_prose)
        if other is None or other == answer:
            continue
        if answer is not None:
            raise ReplyError("it holds more than one JSON value of the form that was asked for")
        answer, joined = other, isinstance(value, JoinedRows)
    if answer is not None:
        # More rows may follow in what was cut off.
        cut = joined and completion.cut and values.unclosed is not None
        if not cut:
            _check_rest(values, labels)
        return answer, cut
    if completion.cut:
        begun = completed(text)
        # An object with other keys may have had another answer after the cut.
        if not isinstance(begun, JsonObject) or all(
            key == name or labels.place(key) is not None for key in begun
        ):
            answer = None if begun is None else parse(begun, False)
            if answer is not None:
                return answer, True
    if not text.strip():
        raise ReplyError("it is empty", "empty_reply")
    raise ReplyError("it holds no JSON value of the form that was asked for")


def _in_prose(text: str, value: Value) -> bool:
    """Whether a value is a bare array with words before it, or after it on its line."""
    if not isinstance(value.value, list):
        return False
    if value.start > _MAX_BEFORE or not _BEFORE.fullmatch(text, 0, value.start):
        return True
    # An array after it may continue it.
    return _LINE_END.match(text, value.stop) is None or text.find("[", value.stop) >= 0


def _check_rest(values: Values, labels: Labels) -> None:
    """Reject a reply that also holds an answer that cannot be read.

    Raises:
        ReplyError: there are labels in brackets that could not be read.
    """
    pieces = 0
    for start, stop in values.unread:
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

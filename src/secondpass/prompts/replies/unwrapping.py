"""Extracts labels and numbers from the JSON value of an answer, and from objects around it."""

from __future__ import annotations

from typing import Any

from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.replies.json_object import JsonObject
from secondpass.prompts.replies.json_text import parse_whole
from secondpass.prompts.replies.rows import Row, number_in, row_of

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
_MAX_DEPTH = 3
"""Objects around an answer: the one that was asked for, and two more."""


def score_pairs(value: Any, labels: Labels, word: str) -> list[tuple[Any, Any]]:
    """(label, number) of a keyed object, a row or an array of rows, as in the reply."""
    misleading = _SCORE_WRAPPERS if word == "rank" else _RANK_WRAPPERS
    trusted = True  # whether numbers without a key are scores or ranks, as requested
    for _ in range(_MAX_DEPTH + 1):
        if not isinstance(value, JsonObject):
            break
        wrapped = isinstance(value.get("grades"), list | dict)  # a label may be that word
        if any(labels.place(key) is not None for key in value if not wrapped or key != "grades"):
            # With another answer beside it, it is ambiguous which one counts.
            return value.pairs if trusted and not wrapped else []
        row = None if wrapped else row_of(value, labels, word)
        if row is not None:
            return row.pairs
        key, value = _unwrap(value, "grades")
        trusted = trusted and key not in misleading
    if not isinstance(value, list):
        return []
    rows = (
        row_of(item, labels, word)
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
        holds_numbers |= key == "ranks" or key in _SCORE_WRAPPERS
    # Bare numbers there are scores or ranks of the documents as shown, not labels.
    if not isinstance(value, list) or (
        holds_numbers and any(number_in(item)[0] is not None for item in value)
    ):
        return []
    # An array for each label. Numbers in brackets may be anything.
    if not labels.numeric and all(isinstance(item, list) and len(item) == 1 for item in value):
        value = [label for (label,) in value]
    return [
        row_of(item, labels, None) or Row(None) if isinstance(item, list | dict) else Row(item)
        for item in value
    ]


def _unwrap(value: JsonObject, name: str) -> tuple[str, Any]:
    """The key and value of ``name``, else of the only key that is a usual wrapper."""
    keys = [name] if name in value else [key for key in value if key.casefold() in _WRAPPERS]
    if len(keys) != 1 or (value.contested and keys != [name]) or name in value.contested:
        return name, None
    (key,) = keys
    inner = value[key]
    return key.casefold(), parse_whole(inner) if isinstance(inner, str) else inner

"""Runs and judgments, and ties between the scores of a run.

trec_eval keeps scores in *single precision* and orders by score, ties by descending document id; it
ignores the ranks and the order of lines. A ranking therefore keeps its order only if its scores
decrease strictly in single precision.

In secondpass a run is ordered by its scores in single precision, and **ties keep the order of the
mapping**. :func:`strictly_falling` writes that order into the scores, so that trec_eval and
every measure agree with it for any ids.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Collection, Mapping
from typing import TypeAlias

from secondpass.errors import InputError
from secondpass.settings import describe

Run: TypeAlias = dict[str, dict[str, float]]
"""query id -> document id -> score; higher is better."""

Qrels: TypeAlias = dict[str, dict[str, int]]
"""query id -> document id -> relevance; 1 or more means relevant."""

RELEVANCE = (-(2**31), 10_000_000)
"""The smallest and the largest relevance.

trec_eval stores them as a C int, and allocates a counter for every grade up to the largest of a
query: 80 MB for this one. Without that memory it returns nothing, or ends the process.
"""

_SMALLEST_POSITIVE = 2.0**-149
"""In single precision."""


def whole_relevance(value: object) -> int:
    """A relevance as an int.

    Raises:
        ValueError: it is not an integer, or out of range; the message continues "the relevance".
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise ValueError(f"must be a whole number, not {describe(value)}")
    smallest, largest = RELEVANCE
    if not smallest <= number <= largest:
        raise ValueError(f"must be {smallest} to {largest}, not {describe(number)}")
    return number


def file_of(document: str) -> str:
    """The path of a passage ``path#number`` of a file; empty if the id is another."""
    path, _, number = document.rpartition("#")
    return path if number.isdecimal() else ""


def judged_id(document: str, judged: Collection[str]) -> str:
    """The id under which a document is judged.

    Judgements may name files rather than their passages: for ``path#number``, which is not judged
    itself, that is ``path`` if it is judged. Otherwise it is the document's own id.
    """
    path = file_of(document)
    return path if path and document not in judged and path in judged else document


def by_judged_id(scores: Mapping[str, float], judged: Collection[str]) -> dict[str, float]:
    """The documents of one query, best first, with each judged file once, at its best passage."""
    kept: dict[str, float] = {}
    for document, score in strictly_falling(scores).items():
        kept.setdefault(judged_id(document, judged), score)
    return kept


def strictly_falling(scores: Mapping[str, float]) -> dict[str, float]:
    """The documents of one query, best first, with strictly decreasing scores.

    Args:
        scores: document id -> score; finite in single precision (up to 3.4e38).

    Returns:
        Every document. A score that is lower, in single precision, than the one before it is
        unchanged; another becomes the next lower number in single precision (about 6e-8 of it).
        The function is idempotent.

    Raises:
        InputError: a score is not a number within range.
    """
    decreasing: dict[str, float] = {}
    previous: float | None = None
    for document, score in sorted(
        scores.items(), key=lambda item: single_precision(item[1], item[0]), reverse=True
    ):
        rounded = single_precision(score, document)
        if previous is None or rounded < previous:
            decreasing[document] = float(score)
        else:
            rounded = single_precision(_next_below(previous), document)
            decreasing[document] = rounded
        previous = rounded
    return decreasing


def trec_order(scores: Mapping[str, float]) -> dict[str, float]:
    """The documents of one query in the order of trec_eval: by score, ties by descending id.

    Raises:
        InputError: a score is not a finite number in single precision.
    """
    return dict(
        sorted(
            scores.items(),
            key=lambda item: (single_precision(item[1], item[0]), item[0]),
            reverse=True,
        )
    )


def single_precision(score: float, document: str) -> float:
    """``score`` rounded to single precision, as in trec_eval.

    Raises:
        InputError: it is not a number, or not finite in single precision.
    """
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", score))[0]
    except (struct.error, TypeError):
        raise InputError(f"document {document!r}: its score is not a number") from None
    except OverflowError:
        raise InputError(f"document {document!r}: its score is beyond single precision") from None
    if rounded - rounded != 0:
        raise InputError(f"document {document!r}: its score is not finite")
    return rounded


def _next_below(score: float) -> float:
    """The next lower number in single precision; minus infinity below the lowest."""
    if score == 0:
        return -_SMALLEST_POSITIVE
    # Read as an integer, the bits of a float count the floats between it and zero.
    bits: int = struct.unpack("<i", struct.pack("<f", score))[0]
    below: float = struct.unpack("<f", struct.pack("<i", bits - 1 if score > 0 else bits + 1))[0]
    return below

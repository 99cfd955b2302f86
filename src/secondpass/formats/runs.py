"""What a run is, and when two of its scores are a tie.

trec_eval keeps scores in *single precision* and orders by score, ties by document id from the
highest to the lowest; it reads neither the ranks nor the order of the lines. So a ranker's own
order survives only where the scores fall strictly, and do so in single precision.

Here a run is in the order of its scores in single precision, and **ties keep the order of the
mapping**. :func:`strictly_falling` writes that order into the scores, so that trec_eval and every
measure agree with it, whatever the ids are.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Mapping
from typing import TypeAlias

from secondpass.errors import InputError
from secondpass.settings import describe

Run: TypeAlias = dict[str, dict[str, float]]
"""query id -> document id -> score; higher is better."""

Qrels: TypeAlias = dict[str, dict[str, int]]
"""query id -> document id -> relevance; 1 or more is relevant."""

RELEVANCE = (-(2**31), 10_000_000)
"""The least and the greatest relevance.

trec_eval holds them as a C int, and has a counter for every grade up to the greatest of a query:
80 MB for this one. It returns nothing, or ends the process, when there is no room for them.
"""

_LEAST = 2.0**-149
"""The smallest positive number in single precision."""


def whole_relevance(value: object) -> int:
    """A relevance as an int.

    Raises:
        ValueError: it is no whole number, or out of range; the message follows "the relevance".
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise ValueError(f"must be a whole number, not {describe(value)}")
    least, greatest = RELEVANCE
    if not least <= number <= greatest:
        raise ValueError(f"must be {least} to {greatest}, not {describe(number)}")
    return number


def strictly_falling(scores: Mapping[str, float]) -> dict[str, float]:
    """The documents of one query, best first, with scores that fall strictly.

    Args:
        scores: document id -> score; finite, no larger than single precision holds (3.4e38).

    Returns:
        Every document. A score is as given where it is lower, in single precision, than the one
        before it; else it is the next lower number in single precision (about 6e-8 of it). Doing
        this twice changes nothing.

    Raises:
        InputError: a score is not a number within range.
    """
    lowered: dict[str, float] = {}
    before: float | None = None
    for document, score in sorted(
        scores.items(), key=lambda item: single(item[1], item[0]), reverse=True
    ):
        own = single(score, document)
        if before is None or own < before:
            lowered[document] = float(score)
        else:
            own = single(_next_below(before), document)
            lowered[document] = own
        before = own
    return lowered


def in_trec_order(scores: Mapping[str, float]) -> dict[str, float]:
    """The documents of one query as trec_eval orders them: ties from the highest id down.

    Raises:
        InputError: a score is not a finite number in single precision.
    """
    return dict(
        sorted(scores.items(), key=lambda item: (single(item[1], item[0]), item[0]), reverse=True)
    )


def single(score: float, document: str) -> float:
    """``score`` as trec_eval sees it: rounded to single precision.

    Raises:
        InputError: it is not a number, or not a finite one in single precision.
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
        return -_LEAST
    # The bits of a float, read as an integer, count its distance from zero.
    bits: int = struct.unpack("<i", struct.pack("<f", score))[0]
    below: float = struct.unpack("<f", struct.pack("<i", bits - 1 if score > 0 else bits + 1))[0]
    return below

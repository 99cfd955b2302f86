"""Checks the arguments of ``Reranker.plan``, and makes candidates of a number of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

from secondpass.errors import InputError
from secondpass.settings import describe
from secondpass.types import Candidate, CandidateLike

T = TypeVar("T", int, float)

_TOKEN = "abc "  # text of about one token, at four bytes each
ASSUMED_QUERY = _TOKEN * 10
_MAX_CANDIDATES = 100_000


def sampled(
    candidates: int | Iterable[CandidateLike], tokens_per_passage: int
) -> tuple[Iterable[CandidateLike], int | None]:
    """The candidates and None; of a number, as many of this length, and the length."""
    length = positive("tokens_per_passage", tokens_per_passage, int)
    if isinstance(candidates, int):
        return _assumed_passages(candidates, length), length
    return candidates, None


def _assumed_passages(count: int, tokens: int) -> list[Candidate]:
    """Candidates of the same length. Raises InputError if the number is out of range."""
    if isinstance(count, bool) or not 0 <= count <= _MAX_CANDIDATES:
        raise InputError(
            f"candidates: give a number from 0 to {_MAX_CANDIDATES:,}, not {describe(count)}"
        )
    return [Candidate(_TOKEN * tokens)] * count


def positive(name: str, value: T, kind: type[T]) -> T:
    """The value. Raises InputError if it is not a number above 0."""
    allowed = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or not 0 < value < math.inf:
        word = "a whole number" if kind is int else "a number"
        raise InputError(f"{name}: give {word} above 0, not {describe(value)}")
    return value

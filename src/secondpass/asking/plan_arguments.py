"""Checks the arguments of ``Reranker.plan``, and makes candidates of a number of them."""

from __future__ import annotations

from collections.abc import Iterable

from secondpass.errors import InputError
from secondpass.settings import describe
from secondpass.types import Candidate, CandidateLike

_TOKEN = "abc "  # text of about one token, at four bytes each
ASSUMED_QUERY = _TOKEN * 10
_MAX_CANDIDATES = 100_000


def sampled(
    candidates: int | Iterable[CandidateLike], tokens_per_passage: int
) -> tuple[Iterable[CandidateLike], int | None]:
    """The candidates and None; of a number, as many of this length, and the length."""
    is_number = isinstance(tokens_per_passage, int) and not isinstance(tokens_per_passage, bool)
    if not is_number or tokens_per_passage < 1:
        message = f"give a whole number above 0, not {describe(tokens_per_passage)}"
        raise InputError(f"tokens_per_passage: {message}")
    if isinstance(candidates, int):
        return _assumed_passages(candidates, tokens_per_passage), tokens_per_passage
    return candidates, None


def _assumed_passages(count: int, tokens: int) -> list[Candidate]:
    """Candidates of the same length. Raises InputError if the number is out of range."""
    if isinstance(count, bool) or not 0 <= count <= _MAX_CANDIDATES:
        raise InputError(
            f"candidates: give a number from 0 to {_MAX_CANDIDATES:,}, not {describe(count)}"
        )
    return [Candidate(_TOKEN * tokens)] * count

"""Log probabilities of the tokens of a reply, as providers report them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from secondpass.prompts.replies.thinking import answer_start
from secondpass.ranking.scoring import to_float

TokenLogprobs: TypeAlias = tuple[Mapping[str, float], ...]
"""The form of :attr:`secondpass.questions.Completion.logprobs`."""

Entry: TypeAlias = tuple[Any, Any]
"""The text of a token and its log probability, as reported."""


def token_logprobs(rows: Iterable[tuple[Entry, Sequence[Entry]]]) -> TokenLogprobs | None:
    """The log probabilities of each token of a reply with its alternatives, among which it may be.

    In each mapping the token's own text is first. Tokens with the same text are merged: they may
    differ in a space that the server leaves out. An entry that is repeated counts once. Impossible
    tokens (None or -infinity, as with constrained replies) are left out. None without rows, if an
    entry has no text or no number, or if a token of the reply is impossible. Numbers above 0 are
    refused by :mod:`secondpass.asking.dispatch`.
    """
    tokens = [_merged(chosen, alternatives) for chosen, alternatives in rows]
    known = tuple(token for token in tokens if token is not None)
    return known if known and len(known) == len(tokens) else None


_FIRST_TOKENS = 16
"""Tokens of the answer of a long reply; the first of them that is not white space is read."""


def answer_range(texts: Sequence[str]) -> tuple[int, int]:
    """The range of the first tokens of an answer among those of a reply, after its thinking."""
    left = answer_start("".join(texts))
    for start, text in enumerate(texts):
        left -= len(text)
        if left < 0:
            return start, start + _FIRST_TOKENS
    return len(texts), len(texts)


def _merged(chosen: Entry, alternatives: Sequence[Entry]) -> dict[str, float] | None:
    """The log probability of each text; None if an entry is invalid."""
    seen: set[tuple[str, float]] = set()
    merged: dict[str, float] = {}
    is_listed = any(text == chosen[0] for text, _ in alternatives)
    for text, value in alternatives if is_listed else [chosen, *alternatives]:
        number = -math.inf if value is None else to_float(value)
        if not isinstance(text, str) or number is None:
            return None
        if number == -math.inf or (text, number) in seen:
            continue
        seen.add((text, number))
        merged[text] = _sum(merged[text], number) if text in merged else number
    if chosen[0] not in merged:  # it is impossible
        return None
    return {chosen[0]: merged.pop(chosen[0]), **merged}


def _sum(first: float, second: float) -> float:
    """The logarithm of the sum of two probabilities."""
    high, low = max(first, second), min(first, second)
    if not math.isfinite(high):
        return high
    return high + math.log1p(math.exp(low - high))

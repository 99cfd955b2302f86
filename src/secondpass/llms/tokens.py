"""Log probabilities of a reply's tokens, from what servers report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from secondpass.prompts.replies.json_text import thinking_end
from secondpass.ranking.scoring import to_float

TokenLogprobs: TypeAlias = tuple[Mapping[str, float], ...]
"""The form of :attr:`secondpass.effects.Completion.logprobs`."""

Entry: TypeAlias = tuple[Any, Any]
"""The text of a token and its log probability, as reported."""


def token_logprobs(rows: Iterable[tuple[Entry, Sequence[Entry]]]) -> TokenLogprobs | None:
    """The log probabilities of a reply.

    Tokens with the same text are merged: they may differ in a space that the server leaves out. An
    entry that is repeated counts once. Impossible tokens (None or -infinity, as with constrained
    replies) are left out.

    Args:
        rows: each token of the reply, with its alternatives, among which it may be.

    Returns:
        One mapping for each token, its own text first. None without rows, if an entry has no text
        or no number, or if a token of the reply is impossible. Numbers above 0 are refused by
        :mod:`secondpass.asking.dispatch`.
    """
    tokens = [_merged(chosen, alternatives) for chosen, alternatives in rows]
    if not tokens or None in tokens:
        return None
    return tuple(token for token in tokens if token is not None)


_KEPT = 16
"""Tokens of the answer of a long reply; the first of them that is not white space is read."""


def answer_range(texts: Sequence[str]) -> tuple[int, int]:
    """The range of the first tokens of an answer, after its thinking; indices from 0.

    Args:
        texts: the tokens of the reply.
    """
    left = thinking_end("".join(texts))
    for start, text in enumerate(texts):
        left -= len(text)
        if left < 0:
            return start, start + _KEPT
    return len(texts), len(texts)


def _merged(chosen: Entry, alternatives: Sequence[Entry]) -> dict[str, float] | None:
    """The log probability of each text; None if an entry is invalid."""
    seen: set[tuple[str, float]] = set()
    merged: dict[str, float] = {}
    listed = any(text == chosen[0] for text, _ in alternatives)
    for text, value in alternatives if listed else [chosen, *alternatives]:
        number = -math.inf if value is None else to_float(value)
        if not isinstance(text, str) or number is None:
            return None
        if number == -math.inf or (text, number) in seen:
            continue
        seen.add((text, number))
        merged[text] = _sum(merged[text], number) if text in merged else number
    own = merged.pop(chosen[0], None)
    return None if own is None else {chosen[0]: own, **merged}


def _sum(first: float, second: float) -> float:
    """The logarithm of the sum of two probabilities."""
    high, low = max(first, second), min(first, second)
    return high + math.log1p(math.exp(low - high)) if math.isfinite(high) else high

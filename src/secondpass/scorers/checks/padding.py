"""Whether the score of a pair depends on the padding beside it, and so on its batch.

A file that was exported without the input ``attention_mask``, or with that of its example, has
other scores for each batch. Found by running: a short pair is scored alone, and padded beside a
long one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TypeAlias

from secondpass.scorers.checks import known_answers

Score: TypeAlias = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""The scores of (query, passage) pairs in one forward pass."""

_SHORT = "1 cat дом 城"
"""In several scripts, so that each model knows a part of it. It is query and passage."""
_LONG = " ".join(["2 the other text. Чёрный ящик, 别的东西"] * 4)
_EXACT = 1e-4
"""Rounding of float32, of numbers up to 1 and relative to larger ones."""
_SHARE = 0.05
"""Of the spread of scores: int8 activations depend on the batch, bfloat16 rounds."""


def padding_fault(score: Score, *, exact: bool) -> str | None:
    """What padding changes; None if it changes nothing.

    Args:
        score: scores pairs in one forward pass.
        exact: whether only the rounding of float32 is allowed, and not that of quantised files and
            of bfloat16.
    """
    short = (_SHORT, _SHORT)
    alone = score([short])[0]
    beside = score([short, (_SHORT, _LONG)])[0]
    difference = abs(alone - beside)
    allowed = _EXACT * max(1.0, abs(alone))
    if difference <= allowed or not isfinite(difference):  # what is not finite is another fault
        return None
    if not exact:
        pairs = [(query, text) for query, texts in known_answers.requests() for text in texts]
        scores = [alone, *score(pairs)]
        allowed = max(allowed, _SHARE * (max(scores) - min(scores)))
    if difference <= allowed:
        return None
    return f"a pair scores {alone:.4g} alone and {beside:.4g} beside a longer one"

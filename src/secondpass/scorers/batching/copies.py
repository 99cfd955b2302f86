"""Copies of a passage in a list. They are scored once, since rounding differs between batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secondpass.questions import text_key


def distinct(
    requests: Sequence[tuple[str, Sequence[str]]],
) -> list[tuple[str, list[str], list[list[int]]]]:
    """Each query with its distinct passages, in order, and the indices of the copies of each."""
    results = []
    for query, passages in requests:
        indices: dict[Any, list[int]] = {}
        for index, passage in enumerate(passages):
            indices.setdefault(text_key(passage), []).append(index)
        copies = list(indices.values())
        results.append((query, [passages[first] for first, *_ in copies], copies))
    return results

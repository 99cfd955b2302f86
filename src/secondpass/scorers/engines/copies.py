"""Copies of a passage in a list. They are scored once, since rounding differs between batches."""

from __future__ import annotations

from collections.abc import Sequence


def distinct(
    requests: Sequence[tuple[str, Sequence[str]]],
) -> list[tuple[str, dict[str, list[int]]]]:
    """Each query with its passages, in order, and the indices of each passage."""
    results = []
    for query, passages in requests:
        indices: dict[str, list[int]] = {}
        for index, passage in enumerate(passages):
            indices.setdefault(passage, []).append(index)
        results.append((query, indices))
    return results

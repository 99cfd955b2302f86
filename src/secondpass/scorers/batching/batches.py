"""Batches of similar lengths, by a budget of tokens.

All texts of a batch are padded to its longest. With a fixed number of texts, a long one makes the
whole batch expensive; with a budget of padded tokens, batches of sorted lengths pad a few percent.
"""

from __future__ import annotations

from collections.abc import Sequence

_SMALLEST = 128
"""Minimum tokens of a batch when a list is split among threads."""


def by_length(
    lengths: Sequence[int], budget: int, *, threads: int = 1, at_most: int | None = None
) -> list[list[int]]:
    """Split texts into batches, the longest texts first; returns the indices of each batch.

    The budget is of padded tokens: the longest length times the number of texts. A longer text is a
    batch alone. ``at_most`` limits the number of texts.
    """
    if threads == 1:
        return _packed(lengths, budget, at_most)
    # A list that fits into one batch per thread is split evenly: no thread is idle, none has two.
    total = sum(lengths)
    least = max(_SMALLEST, -(-total // threads))
    while least < budget:
        batches = _packed(lengths, least, at_most)
        if len(batches) <= threads:
            return batches
        least += -(-least // 16)
    return _packed(lengths, budget, at_most)


def _packed(lengths: Sequence[int], budget: int, at_most: int | None) -> list[list[int]]:
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if room < 1:
            batches.append([])
            room = max(1, budget // max(1, lengths[index]))
            room = room if at_most is None else min(room, at_most)
        batches[-1].append(index)
        room -= 1
    return batches

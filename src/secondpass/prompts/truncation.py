"""Estimates the tokens of texts, and cuts passages to a size."""

from __future__ import annotations

from collections.abc import Sequence

from secondpass.questions import cut

_MIN_LENGTH = 80
"""Minimum characters of a passage that is cut; a shorter one could not be judged."""


def estimate_tokens(text: str) -> float:
    """The estimated number of tokens of a text: one per four bytes of UTF-8."""
    return len(text) / 4 if text.isascii() else len(text.encode("utf-8", "replace")) / 4


def cut_evenly(texts: Sequence[str], characters: int) -> list[str] | None:
    """Cut the longest texts to one length, so that all have ``characters`` characters together.

    No text is cut to less than 80 characters, or loses a prefix or suffix of the configuration, so
    they may have more. None if nothing can be cut.
    """
    room, left = characters, len(texts)
    for length in sorted(map(len, texts)):
        longest = room // left
        if length > longest:
            break
        room -= length
        left -= 1
    else:
        return None
    if longest < _MIN_LENGTH:
        longest = _MIN_LENGTH
        if all(len(text) <= longest for text in texts):
            return None
    shorter = [cut(text, longest) for text in texts]
    return None if shorter == list(texts) else shorter

"""Estimates the tokens of texts, and cuts passages to a size."""

from __future__ import annotations

from collections.abc import Sequence

_MIN_LENGTH = 80
"""Minimum characters of a passage that is cut; a shorter one could not be judged."""


def estimate_tokens(text: str) -> float:
    """The estimated number of tokens of a text: one per four bytes of UTF-8."""
    return len(text) / 4 if text.isascii() else len(text.encode("utf-8", "replace")) / 4


def cut_to_tokens(text: str, tokens: int) -> str:
    """Cut a text to ``tokens`` tokens at most, by :func:`estimate_tokens`."""
    if estimate_tokens(text) <= tokens:
        return text
    return text.encode("utf-8", "replace")[: 4 * tokens].decode("utf-8", "ignore")


def cut_evenly(texts: Sequence[str], characters: int) -> list[str] | None:
    """Cut the longest texts to one length, so that all have ``characters`` characters together.

    No text is cut to less than 80 characters, so they may have more. None if nothing can be cut.
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
    return [text[:longest] for text in texts]

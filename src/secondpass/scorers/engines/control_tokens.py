"""Control tokens of a model: tokens where the configuration wrote them, characters elsewhere.

A tokenizer reads ``<|im_start|>`` or ``[MASK]`` in a text as one token that steers the model. What
the model's author or the operator wrote (chat template, prompt, prefix, separator, suffix) needs
them; in a query or a passage they would let anyone do the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from secondpass.questions import RenderedText, written_spans

_MARKUP = re.compile(r"<.+>|\[.+\]", re.DOTALL)
"""Added tokens that are not marked as special, but are control tokens, such as ``<think>``."""

_MAX_PASSES = 8


class ControlTokens:
    """The control tokens of one tokenizer.

    Args:
        special: tokens that the tokenizer marks as special.
        added: its other added tokens. Those in ``<>`` or ``[]`` are control tokens; others, such as
            runs of spaces, are ordinary text.
    """

    def __init__(self, special: Iterable[str], added: Iterable[str] = ()) -> None:
        markup = {token for token in added if _MARKUP.fullmatch(token)}
        tokens = {token for token in {*special, *markup} if len(token.strip()) > 1}
        self._pattern = _alternatives(tokens)
        self._markup = _alternatives(markup)

    @classmethod
    def of(cls, added_tokens: Mapping[int, Any]) -> ControlTokens:
        """Those of a tokenizer, by its added tokens, which have ``content`` and ``special``."""
        tokens = added_tokens.values()
        return cls(
            [token.content for token in tokens if token.special],
            [token.content for token in tokens if not token.special],
        )

    def written_in(self, text: str) -> bool:
        """Whether the configuration wrote a control token into the text."""
        return any(self.any_in(text[start:stop]) for start, stop in written_spans(text))

    def any_in(self, text: str) -> bool:
        """Whether the text has a control token."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def escaped(self, text: str, *, markup_only: bool = False) -> str:
        """Put a space into each control token that the configuration did not write.

        Args:
            text: any text.
            markup_only: leave special tokens as they are, for tokenizers that split them.
        """
        pattern = self._markup if markup_only else self._pattern
        if pattern is None:
            return text
        for _ in range(_MAX_PASSES):  # a space may complete another control token
            places = _places(pattern, text)
            if not places:
                break
            text = _with_spaces(text, places)
        return text


def _alternatives(tokens: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _places(pattern: re.Pattern[str], text: str) -> list[int]:
    """Where to put a space: within each match that is not part of one written span."""
    written = written_spans(text)
    places = []
    for match in pattern.finditer(text):
        if any(start <= match.start() and match.end() <= stop for start, stop in written):
            continue
        inner = range(match.start() + 1, match.end())
        outside = (
            place for place in inner if not any(start < place < stop for start, stop in written)
        )
        places.append(next(outside))
    return places


def _with_spaces(text: str, places: list[int]) -> str:
    bounds = [0, *places, len(text)]
    spaced = " ".join(text[start:stop] for start, stop in pairwise(bounds))
    written = written_spans(text)
    if not written:
        return spaced
    return RenderedText(
        spaced,
        tuple(
            (
                start + sum(place <= start for place in places),
                stop + sum(place < stop for place in places),
            )
            for start, stop in written
        ),
    )

"""Control tokens of a model: tokens where the configuration wrote them, characters elsewhere.

A tokenizer reads ``<|im_start|>`` or ``[MASK]`` in a text as one token that steers the model. What
the model's author or the operator wrote (chat template, prompt, prefix, separator, suffix) needs
them; in a query or a passage they would let anyone do the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from secondpass.questions import RenderedText, Span, written_spans

Tokens: TypeAlias = tuple[Sequence[int], Sequence[Span]]
"""The ids of the tokens of a text, and their offsets in it."""

_MARKUP = re.compile(r"<.+>|\[.+\]", re.DOTALL)
"""Added tokens that are not marked as special, but are control tokens, such as ``<think>``."""

_MAX_PASSES = 8
"""How often a text is changed until it has no control token."""


class ControlTokens:
    """The control tokens of one tokenizer, by its added tokens.

    Those that are not special are control tokens if they are in ``<>`` or ``[]``; others, such as
    runs of spaces, are ordinary text.
    """

    def __init__(self, added_tokens: Mapping[int, Any]) -> None:
        markup = {
            token.content
            for token in added_tokens.values()
            if not token.special and _MARKUP.fullmatch(token.content.strip())
        }
        control = {
            number: token.content
            for number, token in added_tokens.items()
            if token.special or token.content in markup
        }
        # What the tokenizer finds in normalized text, so in any case.
        folded = {
            token.content for token in added_tokens.values() if getattr(token, "normalized", False)
        }
        tokens = {token for token in control.values() if len(token.strip()) > 1}
        self._pattern = _alternatives(tokens, folded)
        self._markup = _alternatives(markup, folded)
        self._any_case = _alternatives(tokens, tokens)
        self.ids = {  # any text may have unknown ones
            number for number, token in control.items() if "unk" not in token.lower()
        }

    def written_in(self, text: str) -> bool:
        """Whether the configuration wrote a control token into the text."""
        return any(self.any_in(text[start:stop]) for start, stop in written_spans(text))

    def any_in(self, text: str) -> bool:
        """Whether the text has a control token."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def is_suspect(self, text: str) -> bool:
        """Whether a tokenizer may find a control token in the text, once it is normalized.

        Some tokenizers have control tokens among their ordinary pieces, and full-width characters
        become ASCII in others.
        """
        if self._any_case is None:
            return False
        return self._any_case.search(unicodedata.normalize("NFKC", text)) is not None

    def read(self, text: str, encode: Callable[[str], Tokens]) -> tuple[str, Tokens]:
        """The tokens of a text, with spaces in it until none of its content is a control token."""
        for _ in range(_MAX_PASSES):
            tokens = ids, offsets = encode(text)
            written = written_spans(text)
            places = [
                start + 1
                for number, (start, stop) in zip(ids, offsets, strict=True)
                if number in self.ids
                and stop - start > 1
                and not any(first <= start and stop <= last for first, last in written)
            ]
            if not places:
                break
            text = _with_spaces(text, places)
        return text, tokens

    def escaped(self, text: str, *, markup_only: bool = False) -> str:
        """Put a space into each control token that the configuration did not write.

        With ``markup_only``, special tokens are left, for tokenizers that split them.
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


def _alternatives(tokens: Iterable[str], folded: Collection[str]) -> re.Pattern[str] | None:
    longest_first = sorted(tokens, key=len, reverse=True)
    if not longest_first:
        return None
    return re.compile(
        "|".join(
            f"(?i:{re.escape(token)})" if token in folded else re.escape(token)
            for token in longest_first
        )
    )


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


def _with_spaces(text: str, places: Sequence[int]) -> str:
    """Put a space before the characters at these places, in ascending order."""
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

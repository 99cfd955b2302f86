"""A packed text: the passages of a ranking that fit into a prompt, and their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from secondpass.attributes import unchangeable
from secondpass.questions import Span
from secondpass.settings import counted
from secondpass.types import plain

TokenCounter: TypeAlias = Callable[[str], Any]
"""Returns the number of tokens of a text, the tokens, or a mapping with its ``input_ids``."""
PackOrder: TypeAlias = Literal["best", "document", "lost_in_the_middle"]


@unchangeable
@dataclass(frozen=True, slots=True)
class Source:
    """The source of a passage in a packed text.

    Attributes:
        number: number of the passage in the text, from 1.
        start, stop: position in the packed text, in characters.
        position: index of the candidate in the input, from 0.
        id: the candidate's id.
        rank: its rank, from 1.
        score: its final score; None if it has none.
        spans: the parts of the candidate's text that are there, as (start, stop) in characters, in
            order. ``[…]`` stands between them, with the ends of lines beside it.
        metadata: its ``title``, ``source`` and ``url``, where they are strings.
    """

    number: int
    start: int
    stop: int
    position: int
    id: str | int | None
    rank: int
    score: float | None
    spans: tuple[Span, ...]
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)


@unchangeable
@dataclass(frozen=True, slots=True)
class Packed:
    """Passages in one text, and their sources.

    Attributes:
        text: the passages, each below a line with its number; empty if none fits.
        passages: the passages alone: that with number n has the index n - 1.
        sources: one for each passage, in the order of the text.
        tokens: number of tokens of the text, by the counter that was used.
        left_out: reason -> input positions of the ranked items that are not in the text, by rank.
            ``tokens``: no part of it fits. ``repeated``: all of it is in the text by another item.
            ``no_text``: it has no text.
    """

    text: str = field(repr=False)
    passages: tuple[str, ...] = field(repr=False)
    sources: tuple[Source, ...]
    tokens: int
    left_out: Mapping[str, tuple[int, ...]]

    def __repr__(self) -> str:
        # Sources, size and what is left out. Records are logged, so there is no text.
        parts = [counted(len(self.sources), "source"), counted(self.tokens, "token")]
        if left := sum(map(len, self.left_out.values())):
            parts.append(f"{left:,} left out")
        return f"<Packed: {', '.join(parts)}>"

    def to_dict(self) -> dict[str, Any]:
        """Return dicts, lists, strings and numbers, ready for JSON."""
        record = dict(plain(self))
        for source in record["sources"]:
            source["spans"] = [[*span] for span in source["spans"]]
        return record

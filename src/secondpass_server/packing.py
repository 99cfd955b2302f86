"""Packs the best passages of a ranking into a budget of tokens, with their sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from secondpass import InputError, Ranked, Ranking
from secondpass.questions import estimate_tokens
from secondpass.ranking.shared import is_blank
from secondpass.settings import describe

TokenCounter = Callable[[str], float]
"""Number of tokens of a text."""

_NAMED = ("title", "source", "url")
"""Keys of the metadata that name a source, in this order."""
_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a passage in a packed text.

    Attributes:
        number: number in the text, from 1.
        start, stop: position of the passage in the packed text, in characters.
        position: index of the candidate in the input, from 0.
        id: the candidate's id.
        rank: its rank, from 1.
        score: its final score; None if it has none.
        span: (start, stop) of the part of the passage that was packed, in characters; None: all.
        metadata: its ``title``, ``source`` and ``url``, where they are strings.
    """

    number: int
    start: int
    stop: int
    position: int
    id: str | int | None
    rank: int
    score: float | None
    span: tuple[int, int] | None
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Packed:
    """Passages in one text, and their sources.

    Attributes:
        text: the passages, each below a line with its number; empty if none fits.
        sources: one for each passage, in the order of the text.
        tokens: number of tokens of the text, by the counter that was used.
        left_out: input positions of the ranked items that did not fit or have no text, by rank.
        repeated: input positions of items whose passage another item has already added, by rank.
    """

    text: str = field(repr=False)
    sources: tuple[Source, ...]
    tokens: int
    left_out: tuple[int, ...]
    repeated: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return dicts, lists, strings and numbers, ready for JSON."""
        record = asdict(self)
        for source in record["sources"]:
            source["span"] = source["span"] and [*source["span"]]
        return record | {name: [*record[name]] for name in ("sources", "left_out", "repeated")}


def pack(
    ranking: Ranking,
    tokens: int,
    *,
    parts: Literal["passages", "spans"] = "passages",
    count: TokenCounter = estimate_tokens,
) -> Packed:
    """Pack the best items of a ranking into a budget of tokens, best first.

    An item that does not fit is packed as its span (the part that matched best), if it has one that
    fits; otherwise it is left out, and items below it are tried. Passages are not cut elsewhere.
    Items without a score come last, as in the ranking.

    Args:
        ranking: the ranking.
        tokens: the budget, 1 or more, for the text with its numbers and separators.
        parts: ``spans`` packs the span of each item that has one.
        count: number of tokens of a text. The default estimates one for every four bytes; give the
            tokenizer of your model for an exact budget.

    Raises:
        InputError: the budget is not a whole number of 1 or more, ``parts`` is unknown, or
            ``count`` does not return a finite number.
    """
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise InputError(f"tokens: give a whole number of 1 or more, not {describe(tokens)}")
    if parts not in ("passages", "spans"):
        raise InputError(f"parts: must be 'passages' or 'spans', not {describe(parts)}")
    text, used = "", 0
    sources: list[Source] = []
    left_out: list[int] = []
    repeated: list[int] = []
    packed: set[str] = set()
    for item in ranking:
        for span in _choices(item, parts):
            part = item.text if span is None else item.text[slice(*span)]
            if part in packed:
                repeated.append(item.position)
                break
            head = f"{text}{_SEPARATOR if text else ''}[{len(sources) + 1}] {_name(item)}\n"
            size = _size(head + part, count)
            if size <= tokens:
                start = len(head)
                sources.append(
                    Source(
                        len(sources) + 1,
                        start,
                        start + len(part),
                        item.position,
                        item.id,
                        item.rank,
                        item.final_score,
                        span,
                        _named(item),
                    )
                )
                text, used = head + part, size
                packed.add(part)
                break
        else:
            left_out.append(item.position)
    return Packed(text, tuple(sources), used, tuple(left_out), tuple(repeated))


def _choices(item: Ranked, parts: str) -> list[tuple[int, int] | None]:
    """The spans of an item that may be packed, preferred first; None is the whole text."""
    if not isinstance(item.text, str) or is_blank(item.text):
        return []
    if item.span is None:
        return [None]
    return [item.span] if parts == "spans" else [None, item.span]


def _size(text: str, count: TokenCounter) -> int:
    size = count(text)
    if isinstance(size, bool) or not isinstance(size, int | float) or not math.isfinite(size):
        raise InputError(f"count: must return a number, not {describe(size)}")
    return math.ceil(size)


def _name(item: Ranked) -> str:
    """The name of an item's source, in one line."""
    named = _named(item)
    identifier = "" if item.id is None else str(item.id)
    name = next(iter(named.values()), identifier or f"candidate {item.position}")
    return " ".join(str(name).split())[:200]


def _named(item: Ranked) -> dict[str, str]:
    metadata = item.candidate.metadata
    values = {key: metadata.get(key) for key in _NAMED}
    return {key: value for key, value in values.items() if isinstance(value, str) and value.strip()}

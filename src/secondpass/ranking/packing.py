"""Packs the best passages of a ranking into a budget of tokens, with their sources.

Passages that are neighbours in one document lie on one *line*: a text in which each of them has its
place, and the text that they share is there once. What is packed of a line is a set of ranges, so
nothing is repeated. A passage without neighbours is a line of its own.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from math import isfinite

from secondpass.errors import InputError
from secondpass.questions import Span
from secondpass.ranking.ordering import LostInTheMiddle
from secondpass.ranking.packed import Packed, PackOrder, Source
from secondpass.ranking.packed_lines import Line, lines_of, source_names
from secondpass.ranking.rendering import is_blank
from secondpass.settings import describe
from secondpass.types import Ranked, record_id

MARK = "[…]"
"""Stands where text of a passage was left out."""
_BETWEEN = f" {MARK} "
_SEPARATOR = "\n\n"
_SPARSE = string.ascii_lowercase.encode() + b" "
_SPARSE_PER_TOKEN = 3
_OTHER_PER_TOKEN = 2
_ASCII = bytes(range(128))


def estimate_most_tokens(text: str) -> float:
    """An estimate of the number of tokens of a text that is seldom too low for current tokenizers.

    One for every 3 lower-case ASCII letters and spaces, one for each other ASCII character, and one
    for every 2 bytes of UTF-8 of the rest.
    """
    data = text.encode("utf-8", "replace")
    others = len(data.translate(None, _ASCII))
    dense = len(data.translate(None, _SPARSE)) - others
    sparse = len(data) - others - dense
    return sparse / _SPARSE_PER_TOKEN + dense + others / _OTHER_PER_TOKEN


def pack(
    items: Sequence[Ranked],
    tokens: int,
    *,
    best: Sequence[int] = (),
    count: object = None,
    order: PackOrder = "best",
    neighbours: tuple[str, str] | None = None,
    numbered: bool = True,
) -> Packed:
    """See :meth:`secondpass.Ranking.pack`.

    ``best`` has the input positions of the items, the best first; empty: that is their order.
    """
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise InputError(f"tokens: give a whole number of 1 or more, not {describe(tokens)}")
    if order not in ("best", "document", "lost_in_the_middle"):
        message = "must be 'best', 'document' or 'lost_in_the_middle'"
        raise InputError(f"order: {message}, not {describe(order)}")
    if neighbours is not None and (
        not isinstance(neighbours, tuple | list) or [*map(type, neighbours)] != [str, str]
    ):
        message = "give the names of two metadata fields, or None"
        raise InputError(f"neighbours: {message}, not {describe(neighbours)}")
    kept, left_out = _distinct(items)
    lines = lines_of(kept, neighbours)
    packer = _Packer(tokens, _counter(count), order, numbered=numbered)
    places = {position: place for place, position in enumerate(best)}
    for item in sorted(kept, key=lambda item: places.get(item.position, len(places))):
        reason = packer.add(lines[item.position], item)
        if reason is not None:
            left_out[reason].append(item)
    blocks = [*packer.blocks.values()]
    text, passages, sources = packer.written(blocks)
    present = {source.position for source in sources}
    packed = [item for block in blocks for item in block.items]
    left_out["repeated"] += [item for item in packed if item.position not in present]
    positions_left_out: dict[str, tuple[int, ...]] = {}
    for reason, left in left_out.items():
        if left:
            by_rank = sorted(left, key=lambda item: item.rank)
            positions_left_out[reason] = tuple(item.position for item in by_rank)
    return Packed(text, tuple(passages), tuple(sources), math.ceil(packer.used), positions_left_out)


def _distinct(items: Iterable[Ranked]) -> tuple[list[Ranked], dict[str, list[Ranked]]]:
    """The items with a text that no item above them has, and the others by reason."""
    kept: dict[str, Ranked] = {}
    left_out: dict[str, list[Ranked]] = {"tokens": [], "repeated": [], "no_text": []}
    for item in items:
        if not isinstance(item.text, str) or is_blank(item.text):
            left_out["no_text"].append(item)
        elif item.text in kept:
            left_out["repeated"].append(item)
        else:
            kept[item.text] = item
    return [*kept.values()], left_out


# ---------------------------------------------------------------------- tokens


def _counter(count: object) -> Callable[[str], float]:
    """A function that counts tokens, of a tokenizer or another function."""
    # A text may contain what looks like a special token; tiktoken's encode raises for it.
    function = getattr(count, "encode_ordinary", None) or getattr(count, "encode", None) or count
    if function is None:
        return estimate_most_tokens
    if not callable(function) or isinstance(count, type | str):  # a string has encode, too
        message = "give a tokenizer, or a function that returns the number of tokens of a text"
        raise InputError(f"count: {message}, not {describe(count)}")

    def counted(text: str) -> float:
        tokens = function(text)
        tokens = getattr(tokens, "ids", tokens)  # an Encoding of the package tokenizers
        number = len(tokens) if isinstance(tokens, Sized) else tokens
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
            message = "must return a number or a list of tokens"
            raise InputError(f"count: {message}, not {describe(tokens)}")
        return number

    return counted


# ---------------------------------------------------------------------- packing


@dataclass(frozen=True, slots=True)
class _Block:
    """What is packed of a line.

    Attributes:
        line: the line.
        items: those whose text is packed.
        ranges: the packed parts of the line, in order; text that is left out lies between them.
    """

    line: Line
    items: tuple[Ranked, ...] = ()
    ranges: tuple[Span, ...] = ()

    @property
    def rank(self) -> int:
        """The best rank of the items."""
        return min(item.rank for item in self.items)

    def adding(self, item: Ranked, part: Span) -> _Block:
        """The block with a part of an item, too."""
        start = self.line.starts[item.position]
        ranges: list[Span] = []
        for first, last in sorted([*self.ranges, (start + part[0], start + part[1])]):
            # Sentences that follow each other are one part, with the white space between them.
            if ranges and not self.line.text[ranges[-1][1] : first].strip():
                ranges[-1] = ranges[-1][0], max(ranges[-1][1], last)
            else:
                ranges.append((first, last))
        is_new = all(item is not other for other in self.items)
        return _Block(self.line, (*self.items, item) if is_new else self.items, tuple(ranges))

    def missing(self, item: Ranked, part: Span) -> str:
        """The text of a part of an item that is not packed yet."""
        start = self.line.starts[item.position]
        place, last = start + part[0], start + part[1]
        texts = []
        for begin, end in self.ranges:
            if place < end and begin < last:
                texts.append(self.line.text[place:begin])
                place = end
        return "".join([*texts, self.line.text[place:last]])

    def parts(self) -> tuple[str, list[str], str]:
        """The texts of the ranges; before and after them a mark where text was left out."""
        text = self.line.text
        bounds = [self.line.bounds(item) for item in self.items]
        before = text[min(start for start, _ in bounds) : self.ranges[0][0]]
        after = text[self.ranges[-1][1] : max(stop for _, stop in bounds)]
        texts = [text[start:stop] for start, stop in self.ranges]
        return f"{MARK} " if before.strip() else "", texts, f" {MARK}" if after.strip() else ""

    def passage(self) -> str:
        """The text of the block."""
        before, texts, after = self.parts()
        return before + _BETWEEN.join(texts) + after

    def sources(self, number: int, start: int) -> Iterator[Source]:
        """The sources of the block, whose passage begins at ``start`` of the packed text.

        What two items share is part of the one that begins first.
        """
        places = [start + len(self.parts()[0])]
        for first, last in self.ranges:
            places.append(places[-1] + last - first + len(_BETWEEN))
        covered = 0
        for item in sorted(self.items, key=self.line.bounds):
            begin, end = self.line.bounds(item)
            found: list[tuple[Span, int]] = []  # parts, and where they begin in the packed text
            for (first, last), place in zip(self.ranges, places, strict=False):
                part = max(first, begin, covered), min(last, end)
                if self.line.text[slice(*part)].strip():
                    found.append((part, place + part[0] - first))
            covered = max(covered, end)
            if found:
                (first, last), place = found[-1]
                yield Source(
                    number,
                    found[0][1],
                    place + last - first,
                    item.position,
                    item.id,
                    item.rank,
                    item.final_score,
                    tuple((first - begin, last - begin) for (first, last), _ in found),
                    source_names(item),
                )


class _Packer:
    """Adds items to blocks as long as the whole text is within the budget."""

    def __init__(self, budget: int, count: Callable[[str], float], order: str, numbered: bool):
        self.budget = budget
        self.count = count
        self.order = order
        self.numbered = numbered
        self.blocks: dict[int, _Block] = {}
        self.used = 0.0  # tokens of the text of the blocks
        self.base = count("")  # some tokenizers add special tokens to each text
        self.mark = self._cost(_BETWEEN)

    def add(self, line: Line, item: Ranked) -> str | None:
        """Add an item, whole or in part; otherwise return the reason why not."""
        block = self.blocks.get(id(line)) or _Block(line)
        whole = 0, len(item.text)
        missing = block.missing(item, whole)
        if not missing.strip():
            return "repeated"
        parts = [*_parts(item)]
        if parts and self._cost(block.missing(item, parts[0])) > self._room:
            return "tokens"  # saves counting the whole
        if self._cost(missing) <= self._room and self._accept(block.adding(item, whole)):
            return None
        is_added = is_repeated = False
        for part in parts:
            missing = block.missing(item, part)
            if not missing:
                is_repeated = True
                continue
            larger = block.adding(item, part)
            if self._cost(missing) <= self._room and self._accept(larger):
                block, is_added = larger, True
            elif not is_added and not is_repeated:
                return "tokens"  # the other parts would be read without the best one
        if is_added:
            return None
        return "repeated" if is_repeated else "tokens"

    @property
    def _room(self) -> float:
        """Tokens that a text to add may have: the marks on both of its sides may fall away."""
        return self.budget - self.used + 2 * self.mark

    def _cost(self, text: str) -> float:
        """About the number of tokens by which a text grows; the whole text is counted later."""
        return max(0.0, self.count(text) - self.base) if text else 0.0

    def _accept(self, block: _Block) -> bool:
        """Keep a block, if the whole text with it is within the budget."""
        blocks = {**self.blocks, id(block.line): block}
        used = self.count(self.written([*blocks.values()])[0])
        if used > self.budget:
            return False
        self.blocks, self.used = blocks, used
        return True

    def written(self, blocks: Sequence[_Block]) -> tuple[str, list[str], list[Source]]:
        """The text of blocks, its passages and their sources."""
        text = ""
        passages: list[str] = []
        sources: list[Source] = []
        for number, block in enumerate(self._ordered(blocks), 1):
            name = _name(min(block.items, key=lambda item: item.rank))
            separator = _SEPARATOR if text else ""
            text += f"{separator}[{number}] {name}\n" if self.numbered else separator
            passages.append(block.passage())
            sources += block.sources(number, len(text))
            text += passages[-1]
        return text, passages, sources

    def _ordered(self, blocks: Sequence[_Block]) -> Sequence[_Block]:
        best = sorted(blocks, key=lambda block: block.rank)
        if self.order == "document":
            first: dict[object, int] = {}
            for block in best:
                first.setdefault(block.line.document, block.rank)
            return sorted(best, key=lambda block: (first[block.line.document], block.line.start))
        return LostInTheMiddle()(best) if self.order == "lost_in_the_middle" else best


def _parts(item: Ranked) -> Iterator[Span]:
    """The parts of an item that may stand for it, the best first."""
    parts = item.pieces or ([] if item.span is None else [(*item.span, 0.0)])
    for start, stop, _ in sorted(parts, key=lambda part: (-part[2], part[0])):
        # The text may be another one than the method has read.
        if stop <= len(item.text) and item.text[start:stop].strip():
            yield start, stop


def _name(item: Ranked) -> str:
    """The name of an item's source, in one line."""
    names = source_names(item)
    identifier = "" if item.id is None else str(record_id(item.id))
    name = next(iter(names.values()), identifier or f"candidate {item.position}")
    return " ".join(str(name).split())[:200]

"""Packs the best passages of a ranking into a budget of tokens, with their sources.

Passages that are neighbours in one document lie on one *line*: a text in which each of them has its
place, and the text that they share is there once. What is packed of a line is a set of ranges, so
nothing is repeated. A passage without neighbours is a line of its own.
"""

from __future__ import annotations

import math
import re
import string
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, cast

from secondpass.errors import InputError
from secondpass.questions import Span
from secondpass.ranking.ordering import LostInTheMiddle
from secondpass.ranking.packed import Packed, PackOrder, Source
from secondpass.ranking.packed_lines import Line, lines_of, source_names
from secondpass.ranking.rendering import is_blank
from secondpass.ranking.scoring import to_float
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
_NOT_SPACE = re.compile(r"\S")
_CODE = re.compile(r"^(?:```|(?:\t| {2})[ \t]*\S)", re.MULTILINE)
"""A line of code in a text: an indented one, or one that begins a block in Markdown."""
_LONG_LINE = 300
"""Characters; a longer line is divided even in code."""
_ROUNDING = 1e-6
"""Tokens by which a sum of floats may be too high."""
_start_of, _stop_of = itemgetter(0), itemgetter(1)


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
    packer = _Packer(min(tokens, sys.maxsize), _counter(count), order, numbered=numbered)
    places = {position: place for place, position in enumerate(best)}
    for item in sorted(kept, key=lambda item: places.get(item.position, len(places))):
        reason = packer.add(lines[item.position], item)
        if reason is not None:
            left_out[reason].append(item)
    blocks, used = packer.finish()
    text, passages, starts = packer.written(blocks)
    sources = [
        source
        for number, (block, start) in enumerate(zip(blocks, starts, strict=True), 1)
        for source in block.sources(number, start)
    ]
    present = {source.position for source in sources}
    packed = {item.position: item for block in blocks for item in block.items.values()}
    left_out["repeated"] += [item for at, item in packed.items() if at not in present]
    known = {*packed, *(item.position for left in left_out.values() for item in left)}
    dropped = {item.position: item for item in packer.dropped if item.position not in known}
    left_out["tokens"] += dropped.values()
    positions_left_out: dict[str, tuple[int, ...]] = {}
    for reason, left in left_out.items():
        if left:
            by_rank = sorted(left, key=lambda item: item.rank)
            positions_left_out[reason] = tuple(item.position for item in by_rank)
    return Packed(text, tuple(passages), tuple(sources), used, positions_left_out)


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
        result = function(text)
        number = _number_of_tokens(result)
        if number is None or not 0 <= number < math.inf:
            message = "must return a number of 0 or more, or the tokens of one text"
            raise InputError(f"count: {message}, not {describe(result)}")
        return number

    return counted


def _number_of_tokens(result: Any) -> float | None:
    """The number that a counter returns, or that of the tokens; None if it says neither."""
    if isinstance(result, Mapping):  # of a tokenizer of transformers that is called
        return None if (ids := result.get("input_ids")) is None else _number_of_tokens(ids)
    result = getattr(result, "ids", result)  # an Encoding of the package tokenizers
    if not isinstance(result, Sized) or not getattr(result, "shape", True):
        return to_float(result)
    if isinstance(result, str | bytes | Set):
        return None
    if len(result) == 0 or not _is_list(first := next(iter(cast("Any", result)))):
        return len(result)
    return _number_of_tokens(first) if len(result) == 1 else None  # a batch with one text


def _is_list(value: Any) -> bool:
    """Whether it is the tokens of a text, and no token, such as a tuple of a word and its place."""
    return isinstance(getattr(value, "ids", value), list) or bool(getattr(value, "shape", False))


# ---------------------------------------------------------------------- packing


class _Grown(NamedTuple):
    """A block with a part of an item, too.

    Attributes:
        block: the larger block.
        added: the texts that it has more.
        marks, fewer: the marks that it has more, and those that fell away.
    """

    block: _Block
    added: list[str]
    marks: list[str]
    fewer: list[str]


@dataclass(frozen=True, slots=True)
class _Block:
    """What is packed of a line.

    Attributes:
        line: the line.
        items: those whose text is packed, by input position.
        ranges: the packed parts of the line, in order; text that is left out lies between them.
        bounds: where the items begin and end in the line.
    """

    line: Line
    items: Mapping[int, Ranked] = field(default_factory=dict)
    ranges: tuple[Span, ...] = ()
    bounds: Span = (0, 0)

    @property
    def best(self) -> Ranked:
        """The item with the best rank."""
        return min(self.items.values(), key=lambda item: item.rank)

    def adding(self, item: Ranked, part: Span) -> _Grown:
        """The block with a part of an item, too."""
        text, ranges = self.line.text, self.ranges
        item_start, item_stop = self.line.bounds(item)
        start, stop = item_start + part[0], item_start + part[1]
        # The ranges that become one with the part: with white space between, or with nothing.
        low = bisect_left(ranges, start, key=_stop_of)
        if low and _is_space(text, ranges[low - 1][1], start):
            low -= 1
        high = bisect_right(ranges, stop, key=_start_of)
        if high < len(ranges) and _is_space(text, stop, ranges[high][0]):
            high += 1
        joined = ranges[low:high]
        if joined:
            start, stop = min(start, joined[0][0]), max(stop, joined[-1][1])
        added, place = [], start
        for first, last in [*joined, (stop, stop)]:
            if place < first:
                added.append(text[place:first])
            place = last
        bounds = item_start, item_stop
        if self.items:
            bounds = min(self.bounds[0], item_start), max(self.bounds[1], item_stop)
        items = self.items
        if item.position not in items:
            items = {**items, item.position: item}
        block = _Block(self.line, items, (*ranges[:low], (start, stop), *ranges[high:]), bounds)
        # The outer marks may change, too, if the item begins or ends beyond the others.
        marks = [block.mark(i) for i in {0, low, low + 1, len(block.ranges)}]
        fewer = [self.mark(i) for i in {0, *range(low, high + 1), len(ranges)}] if ranges else []
        return _Grown(block, added, marks, fewer)

    def mark(self, index: int) -> str:
        """What stands before the range with this index, or after the last one.

        A mark where text was left out, with the ends of lines on both sides of this text; else
        nothing.
        """
        text, ranges = self.line.text, self.ranges
        start = ranges[index - 1][1] if index else self.bounds[0]
        stop = ranges[index][0] if index < len(ranges) else self.bounds[1]
        if _is_space(text, start, stop):
            return ""
        before = after = " "
        line_end = text.find("\n", start, stop)
        if line_end >= 0 and _is_space(text, start, line_end):
            before = "\n"
        line_end = text.rfind("\n", start, stop)
        if line_end >= 0 and _is_space(text, line_end, stop):
            after = "\n"
        return f"{before if index else ''}{MARK}{after if index < len(ranges) else ''}"

    def passage(self) -> str:
        """The text of the block."""
        texts = [self.mark(0)]
        for index, (start, stop) in enumerate(self.ranges, 1):
            texts += self.line.text[start:stop], self.mark(index)
        return "".join(texts)

    def sources(self, number: int, start: int) -> Iterator[Source]:
        """The sources of the block, whose passage begins at ``start`` of the packed text.

        What two items share is part of the one that begins first.
        """
        places = []
        for index, (first, last) in enumerate(self.ranges):
            places.append(start + len(self.mark(index)))
            start = places[-1] + last - first
        covered = 0
        for item in sorted(self.items.values(), key=self.line.bounds):
            begin, end = self.line.bounds(item)
            found: list[tuple[Span, int]] = []  # parts, and where they begin in the packed text
            for index in range(
                bisect_left(self.ranges, begin, key=_stop_of),
                bisect_left(self.ranges, end, key=_start_of),
            ):
                first, last = self.ranges[index]
                part = max(first, begin, covered), min(last, end)
                if self.line.text[slice(*part)].strip():
                    found.append((part, places[index] + part[0] - first))
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


class _Step(NamedTuple):
    """A part that was added: of which item, and the block before."""

    item: Ranked
    line: Line
    before: _Block | None


class _Packer:
    """Adds items to blocks as long as the whole text is within the budget.

    Each part is counted once, and the sum is taken for the number of tokens of the whole text. A
    tokenizer may need more or fewer for the whole, so this is counted where it matters: when half
    of the room since the last time is used up, and before something is left out. Each time that is
    at most about half of the room, so it is counted a few times, and not for each part.
    """

    def __init__(self, budget: int, count: Callable[[str], float], order: str, numbered: bool):
        self.budget = budget
        self.count = count
        self.order = order
        self.numbered = numbered
        self.blocks: dict[int, _Block] = {}
        self.dropped: list[Ranked] = []  # did not fit in the end
        self._steps: list[_Step] = []
        self._base = count("")  # some tokenizers add special tokens to each text
        self._costs: dict[str, float] = {"": 0.0}
        self._used = self._base
        self._is_counted = True  # whether these are the tokens of the whole text
        self._room = budget - self._base  # when the whole text was counted last

    def add(self, line: Line, item: Ranked) -> str | None:
        """Add an item, whole or in part; otherwise return the reason why not."""
        whole = self._block(line).adding(item, (0, len(item.text)))
        if is_blank("".join(whole.added)):
            return "repeated"
        parts = _parts(item)
        if parts:  # saves counting the whole, which has no marks
            best = self._block(line).adding(item, parts[0])
            least = math.fsum(map(self._cost, best.added)) - 2 * self._cached_cost(_BETWEEN)
            if not self._has_room(least):
                return "tokens"
        if self._accept(item, whole):
            return None
        is_added = is_repeated = False
        for part in parts:
            grown = self._block(line).adding(item, part)
            if not grown.added:
                is_repeated = True
            elif self._accept(item, grown):
                is_added = True
            elif not is_added and not is_repeated:
                return "tokens"  # the other parts would be read without the best one
        if is_added:
            return None
        return "repeated" if is_repeated else "tokens"

    def finish(self) -> tuple[list[_Block], int]:
        """The blocks in their order, and the number of tokens of their text."""
        self._count_whole()
        return self._ordered(), math.ceil(self._used) if self.blocks else 0

    def _block(self, line: Line) -> _Block:
        return self.blocks.get(id(line)) or _Block(line)

    def _cost_of(self, grown: _Grown) -> float:
        """About the number of tokens by which the whole text grows."""
        line, item = grown.block.line, grown.block.best
        block = self.blocks.get(id(line))
        cost = math.fsum(map(self._cost, grown.added))
        cost += math.fsum(map(self._cached_cost, grown.marks))
        cost -= math.fsum(map(self._cached_cost, grown.fewer))
        if block is None:
            cost += self._cached_cost(self._head(len(self.blocks) + 1, item))
        elif block.best is not item:
            number = len(self.blocks)
            cost += self._cached_cost(self._head(number, item))
            cost -= self._cached_cost(self._head(number, block.best))
        return cost

    def _cost(self, text: str) -> float:
        return max(0.0, self.count(text) - self._base)

    def _cached_cost(self, text: str) -> float:
        """The same of a mark or head, each of which is counted once."""
        if (cost := self._costs.get(text)) is None:
            cost = self._costs[text] = self._cost(text)
        return cost

    def _has_room(self, cost: float) -> bool:
        if self._used + cost > self.budget + _ROUNDING:
            self._count_whole()
        return self._used + cost <= self.budget + _ROUNDING

    def _accept(self, item: Ranked, grown: _Grown) -> bool:
        """Keep a larger block, if the whole text with it is within the budget."""
        cost = self._cost_of(grown)
        if not self._has_room(cost):
            return False
        line = grown.block.line
        self._steps.append(_Step(item, line, self.blocks.get(id(line))))
        self.blocks[id(line)] = grown.block
        self._used, self._is_counted = self._used + cost, False
        if self.budget - self._used < self._room / 2:
            self._count_whole()
        return self.blocks.get(id(line)) is grown.block

    def _count_whole(self) -> None:
        """Count the tokens of the whole text, and drop what was added last while there are more."""
        while not self._is_counted:
            self._used = self.count(self.written(self._ordered())[0])
            self._room = self.budget - self._used
            self._is_counted = self._room >= 0
            if not self._is_counted:
                item, line, before = self._steps.pop()
                self.dropped.append(item)
                if before is not None:
                    self.blocks[id(line)] = before
                else:
                    del self.blocks[id(line)]
                if not self.blocks:
                    self._used, self._is_counted = self._base, True

    def _head(self, number: int, item: Ranked) -> str:
        """What stands before the passage with this number."""
        separator = _SEPARATOR if number > 1 else ""
        return f"{separator}[{number}] {_name(item)}\n" if self.numbered else separator

    def written(self, blocks: Sequence[_Block]) -> tuple[str, list[str], list[int]]:
        """The text of blocks, its passages, and where these begin in the text."""
        texts: list[str] = []
        passages: list[str] = []
        starts: list[int] = []
        length = 0
        for number, block in enumerate(blocks, 1):
            head, passage = self._head(number, block.best), block.passage()
            texts += head, passage
            passages.append(passage)
            starts.append(length + len(head))
            length += len(head) + len(passage)
        return "".join(texts), passages, starts

    def _ordered(self) -> list[_Block]:
        best = sorted(self.blocks.values(), key=lambda block: block.best.rank)
        if self.order == "document":
            first: dict[object, int] = {}
            for block in best:
                first.setdefault(block.line.document, block.best.rank)
            return sorted(best, key=lambda block: (first[block.line.document], block.line.start))
        return LostInTheMiddle()(best) if self.order == "lost_in_the_middle" else best


def _parts(item: Ranked) -> list[Span]:
    """The parts of an item that may stand for it, the best first. Code is left in whole lines."""
    text = item.text
    parts = item.pieces or ([] if item.span is None else [(*item.span, 0.0)])
    is_code = bool(parts) and _CODE.search(text) is not None
    found: dict[Span, None] = {}
    for start, stop, _ in sorted(parts, key=lambda part: (-part[2], part[0])):
        # The text may be another one than the method has read.
        if stop <= len(text) and not _is_space(text, start, stop):
            found[_whole_lines(text, start, stop) if is_code else (start, stop)] = None
    return [*found]


def _whole_lines(text: str, start: int, stop: int) -> Span:
    """A part of a text with the rest of its first line and of its last; not of long lines."""
    before = text.rfind("\n", max(0, start - _LONG_LINE), start)
    if before >= 0 or start <= _LONG_LINE:
        start = before + 1
    after = text.find("\n", stop, stop + _LONG_LINE)
    if after < 0 and len(text) <= stop + _LONG_LINE:
        after = len(text)
    return start, max(stop, after)


def _is_space(text: str, start: int, stop: int) -> bool:
    """Whether there is nothing but white space between two places."""
    return _NOT_SPACE.search(text, start, max(start, stop)) is None


def _name(item: Ranked) -> str:
    """The name of an item's source, in one line."""
    names = source_names(item)
    identifier = "" if item.id is None else str(record_id(item.id))
    name = next(iter(names.values()), identifier or f"candidate {item.position}")
    return " ".join(str(name).split())[:200]

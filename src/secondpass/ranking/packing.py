"""Packs the best passages of a ranking into a budget of tokens, with their sources.

What is packed of a passage is a set of ranges of its text. Text that is packed as part of another
passage already, because the two overlap in their document, is left out of them.
"""

from __future__ import annotations

import math
import re
import string
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple, cast

from secondpass.errors import InputError
from secondpass.questions import Span
from secondpass.ranking.ordering import LostInTheMiddle
from secondpass.ranking.packed import Packed, PackOrder, Source
from secondpass.ranking.packed_places import Places, source_names
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
    places = Places(kept, neighbours)
    packer = _Packer(min(tokens, sys.maxsize), _counter(count), order, places, numbered=numbered)
    ranks = {position: place for place, position in enumerate(best)}
    for item in sorted(kept, key=lambda item: ranks.get(item.position, len(ranks))):
        reason = packer.add(item)
        if reason is not None:
            left_out[reason].append(item)
    blocks, used = packer.finish()
    text, passages, starts = packer.written(blocks)
    sources = [
        block.source(number, start)
        for number, (block, start) in enumerate(zip(blocks, starts, strict=True), 1)
    ]
    present = {source.position for source in sources}
    known = {*present, *(item.position for left in left_out.values() for item in left)}
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
    """A block with a part of its passage more.

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
    """What is packed of a passage.

    Attributes:
        item: the passage.
        covered: the ranges of its text that are packed as parts of others, in order.
        ranges: the packed ranges of its text, in order; text that is left out lies between them.
    """

    item: Ranked
    covered: tuple[Span, ...] = ()
    ranges: tuple[Span, ...] = ()

    def adding(self, part: Span) -> _Grown:
        """The block with a part of its passage more, without what others cover of it."""
        whole = _Grown(self, [], [], [])
        for start, stop in self._uncovered(part):
            grown = whole.block._with(start, stop)
            whole.added.extend(grown.added)
            whole.marks.extend(grown.marks)
            whole.fewer.extend(grown.fewer)
            whole = whole._replace(block=grown.block)
        return whole

    def _uncovered(self, part: Span) -> Iterator[Span]:
        """What is not covered of a part, where it has a visible character."""
        text = self.item.text
        place, end = part
        for start, stop in (*self.covered, (end, end)):
            if place < (start := min(start, end)) and not is_blank(text[place:start]):
                yield place, start
            place = max(place, stop)

    def _with(self, start: int, stop: int) -> _Grown:
        text, ranges = self.item.text, self.ranges
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
        block = replace(self, ranges=(*ranges[:low], (start, stop), *ranges[high:]))
        marks = [block.mark(i) for i in {0, low, low + 1, len(block.ranges)}]
        fewer = [self.mark(i) for i in {0, *range(low, high + 1), len(ranges)}] if ranges else []
        return _Grown(block, added, marks, fewer)

    def mark(self, index: int) -> str:
        """What stands before the range with this index, or after the last one.

        A mark where text was left out, with the ends of lines on both sides of this text; else
        nothing.
        """
        text, ranges = self.item.text, self.ranges
        start = ranges[index - 1][1] if index else 0
        stop = ranges[index][0] if index < len(ranges) else len(text)
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
            texts += self.item.text[start:stop], self.mark(index)
        return "".join(texts)

    def source(self, number: int, start: int) -> Source:
        """The source of the block, whose passage begins at ``start`` of the packed text."""
        item, first, last = self.item, self.mark(0), self.mark(len(self.ranges))
        return Source(
            number,
            start + len(first),
            start + len(self.passage()) - len(last),
            item.position,
            item.id,
            item.rank,
            item.final_score,
            self.ranges,
            source_names(item),
        )


class _Step(NamedTuple):
    """A part that was added: of which item, and the block before."""

    item: Ranked
    before: _Block | None


class _Packer:
    """Adds items to blocks as long as the whole text is within the budget.

    Each part is counted once, and the sum is taken for the number of tokens of the whole text. A
    tokenizer may need more or fewer for the whole, so this is counted where it matters: when half
    of the room since the last time is used up, and before something is left out. Each time that is
    at most about half of the room, so it is counted a few times, and not for each part.
    """

    def __init__(
        self,
        budget: int,
        count: Callable[[str], float],
        order: str,
        places: Places,
        *,
        numbered: bool,
    ):
        self.budget = budget
        self.count = count
        self.order = order
        self.places = places
        self.numbered = numbered
        self.blocks: dict[int, _Block] = {}  # by input position
        self.dropped: list[Ranked] = []  # did not fit in the end
        self._steps: list[_Step] = []
        self._base = count("")  # some tokenizers add special tokens to each text
        self._costs: dict[str, float] = {"": 0.0}
        self._used = self._base
        self._is_counted = True  # whether these are the tokens of the whole text
        self._room = budget - self._base  # when the whole text was counted last

    def add(self, item: Ranked) -> str | None:
        """Add an item, whole or in part; otherwise return the reason why not."""
        empty = _Block(item, self._covered(item))
        whole = empty.adding((0, len(item.text)))
        if not whole.added:
            return "repeated"
        parts = _parts(item)
        if parts:  # saves counting the whole, which has no marks
            best = empty.adding(parts[0])
            least = math.fsum(map(self._cost, best.added)) - 2 * self._cached_cost(_BETWEEN)
            if not self._has_room(least):
                return "tokens"
        if self._accept(whole):
            return None
        is_added = is_repeated = False
        for part in parts:
            grown = self.blocks.get(item.position, empty).adding(part)
            if not grown.added:
                is_repeated = True
            elif self._accept(grown):
                is_added = True
            elif not is_added and not is_repeated:
                return "tokens"  # the other parts would be read without the best one
        if is_added:
            return None
        return "repeated" if is_repeated else "tokens"

    def _covered(self, item: Ranked) -> tuple[Span, ...]:
        """The ranges of an item's text that are packed as parts of others, in order."""
        found: list[Span] = []
        for position, shift in self.places.overlapping(item):
            if (block := self.blocks.get(position)) is None:
                continue
            for first, last in block.ranges:
                start, stop = max(0, first + shift), min(len(item.text), last + shift)
                same = block.item.text[start - shift : stop - shift]
                # What metadata say may be wrong.
                if not _is_space(item.text, start, stop) and item.text[start:stop] == same:
                    found.append((start, stop))
        if found:
            fitted = _lines_within if _CODE.search(item.text) else _with_spaces
            found = [fitted(item.text, *span) for span in found]
        return tuple(sorted(span for span in found if span[0] < span[1]))

    def finish(self) -> tuple[list[_Block], int]:
        """The blocks in their order, and the number of tokens of their text."""
        self._count_whole()
        return self._ordered(), math.ceil(self._used) if self.blocks else 0

    def _cost_of(self, grown: _Grown) -> float:
        """About the number of tokens by which the whole text grows."""
        item = grown.block.item
        cost = math.fsum(map(self._cost, grown.added))
        cost += math.fsum(map(self._cached_cost, grown.marks))
        cost -= math.fsum(map(self._cached_cost, grown.fewer))
        if item.position not in self.blocks:
            cost += self._cached_cost(self._head(len(self.blocks) + 1, item))
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

    def _accept(self, grown: _Grown) -> bool:
        """Keep a larger block, if the whole text with it is within the budget."""
        cost = self._cost_of(grown)
        if not self._has_room(cost):
            return False
        item = grown.block.item
        self._steps.append(_Step(item, self.blocks.get(item.position)))
        self.blocks[item.position] = grown.block
        self._used, self._is_counted = self._used + cost, False
        if self.budget - self._used < self._room / 2:
            self._count_whole()
        return self.blocks.get(item.position) is grown.block

    def _count_whole(self) -> None:
        """Count the tokens of the whole text, and drop what was added last while there are more."""
        while not self._is_counted:
            self._used = self.count(self.written(self._ordered())[0])
            self._room = self.budget - self._used
            self._is_counted = self._room >= 0
            if not self._is_counted:
                item, before = self._steps.pop()
                self.dropped.append(item)
                if before is not None:
                    self.blocks[item.position] = before
                else:
                    del self.blocks[item.position]
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
            head, passage = self._head(number, block.item), block.passage()
            texts += head, passage
            passages.append(passage)
            starts.append(length + len(head))
            length += len(head) + len(passage)
        return "".join(texts), passages, starts

    def _ordered(self) -> list[_Block]:
        best = sorted(self.blocks.values(), key=lambda block: block.item.rank)
        if self.order == "document":
            places = [self.places.of(block.item) for block in best]
            first = {place.document: place.item.rank for place in reversed(places)}
            places.sort(key=lambda place: (first[place.document], place.start))
            return [self.blocks[place.item.position] for place in places]
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


def _lines_within(text: str, start: int, stop: int) -> Span:
    """The whole lines of a part of a text."""
    if start and text[start - 1] != "\n":
        start = text.find("\n", start, stop) + 1 or stop
    if stop < len(text):
        stop = text.rfind("\n", 0, stop) + 1
    return start, stop


def _with_spaces(text: str, start: int, stop: int) -> Span:
    """A part of a text with the spaces beside it."""
    return len(text[:start].rstrip(" ")), len(text) - len(text[stop:].lstrip(" "))


def _is_space(text: str, start: int, stop: int) -> bool:
    """Whether there is nothing but white space between two places."""
    return _NOT_SPACE.search(text, start, max(start, stop)) is None


def _name(item: Ranked) -> str:
    """The name of an item's source, in one line."""
    names = source_names(item)
    identifier = "" if item.id is None else str(record_id(item.id))
    name = next(iter(names.values()), identifier or f"candidate {item.position}")
    return " ".join(str(name).split())[:200]

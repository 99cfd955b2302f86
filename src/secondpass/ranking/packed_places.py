"""Where passages stand in their documents, to find the text that two of them share.

That is known by their metadata, or found where one begins with the end of another.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from secondpass.types import Ranked

_NAMED = ("title", "source", "url")
"""Keys of the metadata that name a source, in this order."""
_LEAST_OVERLAP = 20
"""Characters that the end of one passage and the beginning of another must share to overlap. Fewer
may be equal by chance."""
_MOST_OVERLAP = 1000
_MOST_ALIKE = 8
"""Passages with the same beginning that the end of another is compared with."""
_FEW = 300
"""Beginnings that are searched for in each passage; of more, each place is looked up."""


class Place(NamedTuple):
    """Where an item begins in its document, which is an object of its own if it is not known."""

    document: object
    start: int
    item: Ranked


_start_of = attrgetter("start")


class Places:
    """The places of items."""

    def __init__(self, items: Sequence[Ranked], neighbours: tuple[str, str] | None) -> None:
        self._of: dict[int, Place] = {}  # by input position
        others: list[Ranked] = []
        for item in items:
            place = None if neighbours is None else _named_place(item, neighbours)
            if place is None:
                others.append(item)
            else:
                self._of[item.position] = place
        for chain in _chains(others):
            document, stop = object(), 0
            for item, overlap in chain:
                self._of[item.position] = Place(document, stop - overlap, item)
                stop += len(item.text) - overlap
        self._documents: dict[object, list[Place]] = {}  # each from its beginning
        self._longest: dict[object, int] = {}
        for place in sorted(self._of.values(), key=_start_of):
            self._documents.setdefault(place.document, []).append(place)
            longest = self._longest.get(place.document, 0)
            self._longest[place.document] = max(longest, len(place.item.text))

    def of(self, item: Ranked) -> Place:
        return self._of[item.position]

    def overlapping(self, item: Ranked) -> Iterator[tuple[int, int]]:
        """The items that share a part of the document with this one.

        For each its input position, and how many characters after this one it begins.
        """
        document, start, _ = self._of[item.position]
        places = self._documents[document]
        first = bisect_right(places, start - self._longest[document], key=_start_of)
        last = bisect_left(places, start + len(item.text), key=_start_of)
        for place in places[first:last]:
            if place.item is not item:
                yield place.item.position, place.start - start


def _named_place(item: Ranked, neighbours: tuple[str, str]) -> Place | None:
    """The place that the metadata of an item names; None if they name none."""
    metadata = item.candidate.metadata or {}
    document, start = (metadata.get(name) for name in neighbours)
    if isinstance(document, str | int) and type(start) is int and start >= 0:
        return Place(document, start, item)
    return None


def _chains(items: Sequence[Ranked]) -> Iterator[list[tuple[Ranked, int]]]:
    """Items each of which begins with the end of the one before; with the length of that."""
    following: dict[int, tuple[int, int]] = {}  # index -> index of the next, and their overlap
    followers: set[int] = set()
    heads = list(range(len(items)))  # the first item of the chain that ends with this one
    tails = list(range(len(items)))  # the last item of the chain that begins with this one
    names = [tuple(source_names(item).items()) for item in items]
    beginnings: dict[object, dict[str, list[int]]] = {}
    for index, item in enumerate(items):
        if len(item.text) >= _LEAST_OVERLAP:
            of_name = beginnings.setdefault(names[index], {})
            of_name.setdefault(item.text[:_LEAST_OVERLAP], []).append(index)
    for index, item in enumerate(items):
        tail = item.text[-_MOST_OVERLAP:]
        of_name = beginnings.get(names[index], {})
        own = [index]
        if len(of_name) < _FEW and not any(
            start in tail for start, alike in of_name.items() if alike and alike != own
        ):
            continue
        for place in range(len(tail) - _LEAST_OVERLAP + 1):  # the longest overlap first
            alike = of_name.get(tail[place : place + _LEAST_OVERLAP])
            # The head would close the chain to a circle; it may be the item itself.
            free = (other for other in alike or () if other != heads[index])
            overlapping = (
                other
                for other in islice(free, _MOST_ALIKE)
                if items[other].text.startswith(tail[place:])
            )
            if (best := next(overlapping, None)) is None:
                continue
            following[index] = best, len(tail) - place
            followers.add(best)
            if alike is not None:
                alike.remove(best)  # it follows one passage only
            heads[tails[best]] = heads[index]
            tails[heads[index]] = tails[best]
            break
    for index in range(len(items)):
        if index not in followers:
            yield _chain_from(index, items, following)


def _chain_from(
    index: int, items: Sequence[Ranked], following: Mapping[int, tuple[int, int]]
) -> list[tuple[Ranked, int]]:
    chain = [(items[index], 0)]
    while index in following:
        index, overlap = following[index]
        chain.append((items[index], overlap))
    return chain


def source_names(item: Ranked) -> dict[str, str]:
    """The metadata that name the source of an item."""
    metadata = item.candidate.metadata or {}
    values = {key: metadata.get(key) for key in _NAMED}
    return {key: value for key, value in values.items() if isinstance(value, str) and value.strip()}

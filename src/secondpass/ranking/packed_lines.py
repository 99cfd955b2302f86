"""Lines of passages: neighbours in one document, joined so that the text they share is there once.

Where passages lie in their document is known by their metadata, or found by what they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Any

from secondpass.questions import Span
from secondpass.types import Ranked

_NAMED = ("title", "source", "url")
"""Keys of the metadata that name a source, in this order."""
_LEAST_OVERLAP = 20
"""Characters that the end of one passage and the beginning of another must share to be neighbours.
Fewer may be equal by chance."""
_MOST_OVERLAP = 1000
_MOST_ALIKE = 8
"""Passages with the same beginning that the end of another is compared with."""
_FEW = 300
"""Beginnings that are searched for in each passage; of more, each place is looked up."""
_GAP = 2
"""Characters, such as a paragraph's end, that splitters remove between passages."""


class Line:
    """Passages that are neighbours in one document, or a single one.

    Attributes:
        text: of all of them, each character once.
        starts: input position -> where the passage begins in the text.
        document: what identifies the document; the line itself if that is not known.
        start: where the line begins in its document.
    """

    def __init__(self, item: Ranked, document: object = None, start: int = 0) -> None:
        self.starts = {item.position: 0}
        self.document = self if document is None else document
        self.start = start
        self._texts = [item.text]
        self._length = len(item.text)
        self._tail = item.text  # the text from where the last passage begins

    @cached_property
    def text(self) -> str:
        return "".join(self._texts)

    def append(self, item: Ranked, start: int | None = None, *, overlap: int = 0) -> bool:
        """Add a passage that begins at ``start`` of the text; False if they do not agree there.

        It begins not before the last one. Without a start, the ``overlap`` of it and the text says
        where it begins.
        """
        start = self._length - overlap if start is None else start
        if start > self._length + _GAP:
            return False
        tail = self._tail[max(0, len(self._tail) - (self._length - start)) :]
        shared = tail[: len(item.text)]
        if not item.text.startswith(shared):
            return False
        new = item.text[len(shared) :]
        self._texts += " " * (start - self._length), new
        self._length = max(start, self._length) + len(new)
        self._tail = tail + new
        self.starts[item.position] = start
        return True

    def bounds(self, item: Ranked) -> Span:
        """Where a passage begins and ends in the text."""
        start = self.starts[item.position]
        return start, start + len(item.text)


def lines_of(items: Sequence[Ranked], neighbours: tuple[str, str] | None) -> dict[int, Line]:
    """The line of each item, by input position."""
    placed: list[tuple[object, int, Ranked]] = []
    others: list[Ranked] = []
    for item in items:
        document, start = _place(item, neighbours)
        if document is None:
            others.append(item)
        else:
            placed.append((document, start, item))
    lines: list[Line] = []
    for document, group in groupby(_by_document(placed), key=lambda entry: entry[0]):
        line: Line | None = None
        for _, start, item in group:
            if line is None or not line.append(item, start - line.start):
                line = Line(item, document, start)
                lines.append(line)
    for chain in _chains(others):
        (first, _), *rest = chain
        lines.append(line := Line(first))
        for item, overlap in rest:
            line.append(item, overlap=overlap)
    return {position: line for line in lines for position in line.starts}


def _place(item: Ranked, neighbours: tuple[str, str] | None) -> tuple[object, int]:
    """The document of an item, and where the item begins in it; (None, 0) if that is not known."""
    if neighbours is None:
        return None, 0
    metadata = item.candidate.metadata or {}
    document, start = (metadata.get(name) for name in neighbours)
    if isinstance(document, str | int) and type(start) is int and start >= 0:
        return document, start
    return None, 0


def _by_document(placed: Sequence[tuple[Any, int, Ranked]]) -> list[tuple[Any, int, Ranked]]:
    """Documents in the order of their best item, each from its beginning."""
    first: dict[object, int] = {}
    for document, _, item in placed:
        first.setdefault(document, item.rank)
    return sorted(placed, key=lambda entry: (first[entry[0]], entry[1], -len(entry[2].text)))


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

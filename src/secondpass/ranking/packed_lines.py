"""Lines of passages: neighbours in one document, joined so that the text they share is there once.

Where passages lie in their document is known by their metadata, or found by what they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from secondpass.questions import Span
from secondpass.types import Ranked

_NAMED = ("title", "source", "url")
"""Keys of the metadata that name a source, in this order."""
_LEAST_OVERLAP = 20
"""Characters that the end of one passage and the beginning of another must share to be neighbours.
Fewer may be equal by chance."""
_MOST_OVERLAP = 1000
_MOST_PLACES = 8
"""Places in a passage that are compared with the beginning of another."""
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
        self.text = item.text
        self.starts = {item.position: 0}
        self.document = self if document is None else document
        self.start = start

    def append(self, item: Ranked, start: int) -> bool:
        """Add a passage that begins at ``start`` of the text; False if they do not agree there."""
        if start > len(self.text) + _GAP:
            return False
        shared = self.text[start : start + len(item.text)]
        if not item.text.startswith(shared):
            return False
        self.text = self.text.ljust(start) + item.text[len(shared) :]
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
            line.append(item, len(line.text) - overlap)
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
    names = [source_names(item) for item in items]
    beginnings = [item.text[:_LEAST_OVERLAP] for item in items]
    for index, item in enumerate(items):
        end_of_text = item.text[-_MOST_OVERLAP:]
        best, longest = -1, 0
        for other, beginning in enumerate(beginnings):
            # The head would close the chain to a circle; it may be the item itself.
            if beginning not in end_of_text or other in followers or other == heads[index]:
                continue
            if names[other] != names[index]:
                continue
            overlap = _overlap(end_of_text, items[other].text, beginning)
            if overlap > longest:
                best, longest = other, overlap
        if longest == 0:
            continue
        following[index] = best, longest
        followers.add(best)
        last = best
        while last in following:
            last, _ = following[last]
        heads[last] = heads[index]
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


def _overlap(tail: str, text: str, beginning: str) -> int:
    """The length of the longest end of ``tail`` with which a text begins; 0 if it is too short."""
    if len(beginning) < _LEAST_OVERLAP:
        return 0
    place = -1
    for _ in range(_MOST_PLACES):
        place = tail.find(beginning, place + 1)
        if place < 0:
            break
        if text.startswith(tail[place:]):
            return len(tail) - place
    return 0


def source_names(item: Ranked) -> dict[str, str]:
    """The metadata that name the source of an item."""
    metadata = item.candidate.metadata or {}
    values = {key: metadata.get(key) for key in _NAMED}
    return {key: value for key, value in values.items() if isinstance(value, str) and value.strip()}

"""A heap whose order is decided by questions, each about a candidate and its children."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from secondpass.effects import Plan
from secondpass.strategies.base import Bounds

AskSets: TypeAlias = Callable[[Mapping[int, Sequence[int]]], Plan[list[int | None]]]
"""Asks about sets of indices side by side, each under the place in the heap of its first one. The
result is which of each set is the best, by its place in the set; None where there is no answer."""


class Heap:
    """The indices of a task; the best of each set of a place and its children moves up.

    Args:
        size: number of candidates, in their original order.
        width: the number of children of a place, at most; 2 or more.
    """

    def __init__(self, size: int, width: int) -> None:
        self.items = list(range(size))
        self.width = width

    def build(self, ask: AskSets) -> Plan[None]:
        """Let each candidate sink as soon as all below it are in place.

        The questions are those of heapsort one after the other: what is in one part of the heap
        does not depend on another part.
        """
        last = (len(self.items) - 2) // self.width  # place that has children
        waiting = {place: self._with_children(place, last) for place in range(last, -1, -1)}
        # Where each candidate that sinks began, and where it is.
        sinking = {place: place for place, number in waiting.items() if number == 0}
        while sinking:
            chosen = yield from ask({place: self._set(place) for place in sinking.values()})
            for start, best in zip(list(sinking), chosen, strict=True):
                place = self._sink(sinking[start], 0 if best is None else best)
                if place is not None:
                    sinking[start] = place
                    continue
                del sinking[start]
                parent = (start - 1) // self.width
                if start:
                    waiting[parent] -= 1
                    if waiting[parent] == 0:
                        sinking[parent] = parent

    def take(self, number: int, ask: AskSets) -> Plan[list[int]]:
        """Take away the best, and let the last sink from its place, until so many are taken.

        The next is taken as soon as what sinks has left the top, so that several sink at a time.
        Without an answer, the best-retrieved of the children goes before what sinks.
        """
        taken: list[int] = []
        sinking: list[int] = []  # places, of the first that began to sink first
        while True:
            if self._is_settled(sinking):
                taken.append(self.items[0])
                last = self.items.pop()
                if len(taken) == number or not self.items:
                    return taken
                self.items[0] = last
                if self._children(0):
                    sinking.append(0)
            free = [
                place
                for at, place in enumerate(sinking)
                if not set(sinking[:at]).intersection(self._children(place))
            ]
            if not free:
                continue
            sets = {place: self._set(place) for place in free}
            chosen = dict(zip(free, (yield from ask(sets)), strict=True))
            places = []
            for place in sinking:
                best = chosen.get(place, 0)
                if best is None:
                    best = sets[place].index(min(sets[place][1:]))
                places.append(self._sink(place, best) if place in sets else place)
            sinking = [place for place in places if place is not None]

    def _is_settled(self, sinking: Sequence[int]) -> bool:
        """Whether nothing that sinks is at the top, or may come to the last place."""
        place = len(self.items) - 1
        while place:
            if place in sinking:
                return False
            place = (place - 1) // self.width
        return 0 not in sinking

    def _set(self, place: int) -> list[int]:
        return [self.items[place], *(self.items[child] for child in self._children(place))]

    def _sink(self, place: int, best: int) -> int | None:
        """Exchange the candidate at a place with the best of its set.

        Returns:
            Its new place, if it has children there.
        """
        if best == 0:
            return None
        child = self._children(place)[best - 1]
        self.items[place], self.items[child] = self.items[child], self.items[place]
        return child if self._children(child) else None

    def _children(self, place: int) -> range:
        first = self.width * place + 1
        return range(first, min(first + self.width, len(self.items)))

    def _with_children(self, place: int, last: int) -> int:
        """How many children of a place have children themselves."""
        return sum(child <= last for child in self._children(place))


def heap_bounds(size: int, width: int, number: int) -> Bounds:
    """How much is asked to build a heap, and to take so many from it.

    At least one question about each place with children, if all are in order; at most as many as
    it takes to sink to the end.
    """
    if size < 2:
        return Bounds()
    heights = [_height(place, size, width) for place in range((size - 2) // width + 1)]
    top = heights[0]
    # A place waits for those on the longest way below it, and no part of the heap for another.
    building = Bounds((len(heights), sum(heights)), (top, top * (top + 1) // 2))
    sinking = [_height(0, size - taken, width) for taken in range(1, min(number, size))]
    # What sinks towards the last place is waited for, so there may be as many rounds as calls.
    calls = sum(height > 0 for height in sinking), sum(sinking)
    return building + Bounds(calls, calls)


def _height(place: int, size: int, width: int) -> int:
    """How often a candidate can sink from a place in a heap of this size."""
    height = 0
    while (place := width * place + 1) < size:
        height += 1
    return height

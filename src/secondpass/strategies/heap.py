"""A heap whose order is decided by questions, each about a candidate and its children."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from secondpass.effects import Plan
from secondpass.strategies.base import Bounds

AskSets: TypeAlias = Callable[[Mapping[int, Sequence[int]]], Plan[list[int | None]]]
"""Asks about sets of indices in one round. A key is the place in the heap of the first index of its
set. The result is the place of the best index within each set; None without an answer."""


class Heap:
    """A heap of the indices of a task, as an array: the best is at place 0.

    The first child of place p is at place ``width * p + 1``.

    Args:
        size: number of candidates, 2 or more.
        width: children of a place at most, 2 or more.
    """

    def __init__(self, size: int, width: int) -> None:
        self.items = list(range(size))
        self.width = width

    def build(self, ask: AskSets) -> Plan[None]:
        """Sift each candidate down, as soon as the heaps below it are complete.

        The questions are those of a sequential heapsort, since the parts of a heap are independent.
        """
        last = (len(self.items) - 2) // self.width  # the last place that has children
        waiting = {place: self._count_parents(place, last) for place in range(last, -1, -1)}
        # By the place where it began: the current place of each candidate that sinks.
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
        """Remove the best ``number`` times; the last candidate replaces it, and sinks.

        The next is removed as soon as the top is settled, so that several candidates sink at a
        time. Without an answer, the best-retrieved child moves up.
        """
        taken: list[int] = []
        sinking: list[int] = []  # current places, in the order in which the candidates began
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
                for index, place in enumerate(sinking)
                if not set(sinking[:index]).intersection(self._children(place))
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
        """Whether no candidate that sinks is at the top, or can reach the last place."""
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

        Args:
            place: in the heap.
            best: place in the set; 0 is the candidate itself.

        Returns:
            The candidate's new place; None if it has no children there, or is the best itself.
        """
        if best == 0:
            return None
        child = self._children(place)[best - 1]
        self.items[place], self.items[child] = self.items[child], self.items[place]
        return child if self._children(child) else None

    def _children(self, place: int) -> range:
        first = self.width * place + 1
        return range(first, min(first + self.width, len(self.items)))

    def _count_parents(self, place: int, last: int) -> int:
        """The number of children of a place that have children themselves."""
        return sum(child <= last for child in self._children(place))


def heap_bounds(size: int, width: int, number: int) -> Bounds:
    """The bounds of questions that build a heap and remove the best from it ``number`` times.

    At least one question about each place with children, if all are in order; at most one for each
    level below it.
    """
    if size < 2:
        return Bounds()
    heights = [_height(place, size, width) for place in range((size - 2) // width + 1)]
    top = heights[0]
    # A place waits for the deepest place below it; separate parts of the heap do not wait.
    building = Bounds((len(heights), sum(heights)), (top, top * (top + 1) // 2))
    sinking = [_height(0, size - taken, width) for taken in range(1, min(number, size))]
    # What sinks towards the last place is waited for, so there may be as many rounds as calls.
    calls = sum(height > 0 for height in sinking), sum(sinking)
    return building + Bounds(calls, calls)


def _height(place: int, size: int, width: int) -> int:
    """The number of levels below a place in a heap of this size."""
    height = 0
    while (place := width * place + 1) < size:
        height += 1
    return height

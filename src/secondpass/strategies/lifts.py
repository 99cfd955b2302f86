"""Orders in which no candidate is lifted too far above its place in another order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class Bound:
    """An order to be bounded.

    Attributes:
        preferred: indices in the method's order; empty if it keeps the input order.
        places: the place of each in the anchor's order, from 0.
        lifted: those that are lifted too far.
    """

    preferred: list[int]
    places: Mapping[int, int]
    lifted: list[int]


def bounded_order(
    preferred: Sequence[int], places: Mapping[int, int], lift: int, unbounded: Collection[int] = ()
) -> list[int]:
    """The order nearest to ``preferred`` in which no index is lifted too far.

    Each place takes the first index of ``preferred`` that is allowed there. There always is one:
    the p + 1 indices whose anchor's places are 0 to p are allowed at place p, and only p of them
    can be in use. The result is the lexicographically first order, by ``preferred``, that keeps the
    bound. Takes O(n log n) for n indices.

    Args:
        preferred: all indices, best first.
        places: the place of each in the anchor's order, from 0.
        lift: how many places above its place in the anchor's order an index may be, 0 or more.
        unbounded: indices without a bound.
    """
    earliest = {
        index: 0 if index in unbounded else max(0, places[index] - lift) for index in preferred
    }
    waiting = sorted(range(len(preferred)), key=lambda rank: -earliest[preferred[rank]])
    ready: list[int] = []
    order: list[int] = []
    for place in range(len(preferred)):
        while waiting and earliest[preferred[waiting[-1]]] <= place:
            heappush(ready, waiting.pop())
        order.append(preferred[heappop(ready)])
    return order

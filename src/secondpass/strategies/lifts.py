"""Orders in which nothing is lifted too far above its place in another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class Bound:
    """An order that is to be bounded.

    Attributes:
        preferred: indices in the method's order; none if it has no order of its own.
        places: the place of each in the anchor's order.
        lifted: those that are lifted too far.
    """

    preferred: list[int]
    places: Mapping[int, int]
    lifted: list[int]


def bounded_order(
    preferred: Sequence[int], places: Mapping[int, int], lift: int, free: Collection[int] = ()
) -> list[int]:
    """The order nearest to ``preferred`` in which nothing is lifted too far.

    Each place goes to the first in ``preferred`` of those that may stand there. One always may: of
    n indices, the p + 1 whose places are 0 to p may stand at place p, and only p are in use before
    it. Of all orders that keep the bound, this one is the first by ``preferred``, compared place by
    place. In time n log n.

    Args:
        preferred: all indices, best first.
        places: the place of each in the anchor's order, from 0.
        lift: places at most by which an index may stand above its place.
        free: indices without a bound.
    """
    earliest = {index: 0 if index in free else max(0, places[index] - lift) for index in preferred}
    waiting = sorted(range(len(preferred)), key=lambda rank: -earliest[preferred[rank]])
    ready: list[int] = []
    order: list[int] = []
    for place in range(len(preferred)):
        while waiting and earliest[preferred[waiting[-1]]] <= place:
            heappush(ready, waiting.pop())
        order.append(preferred[heappop(ready)])
    return order

"""Places candidates without a judgement among those with one.

A candidate without a judgement, since a call failed or time ran out, may be better or worse than
those with one. What is known about it is its place in the incoming order, so it is ranked by that
among the judged candidates. Only ranks are used, which fits every kind of score.
``benchmarks/partial_results.py`` has the measurements, and docs/decisions the rules that did worse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from secondpass.types import Issue, ItemStatus

_LEAST_WEIGHT = 0.25
"""Weight of the unjudged candidates' own number if all of them come before all judged ones. The
judged ones are then the worse part of the list, so they are not placed far ahead."""
_KNOWN = frozenset({"no_text", "declined"})
"""Codes of issues about candidates that no failed call left unjudged: asked again, they would have
no score either."""


def completed(
    scored: Sequence[int],
    head: Sequence[int],
    status: Mapping[int, ItemStatus] | Sequence[ItemStatus],
    issues: Iterable[Issue],
) -> list[int]:
    """The order of a head: scored candidates, best first, with the others.

    Candidates that failed calls left unjudged are merged with them; missing ones, other unjudged
    ones and the tail follow, each in input order. Integers are positions.
    """
    if len(scored) == len(head):
        return [*scored]
    ranked = {*scored, *failed([item for item in head if status[item] == "unjudged"], issues)}
    order = merged(scored, [item for item in head if item in ranked])
    for other in ("backfilled", "unjudged", "tail"):
        order += [item for item in head if status[item] == other and item not in ranked]
    return order


def merged(judged: Sequence[int], incoming: Iterable[int]) -> list[int]:
    """Merge judged candidates, best first, with unjudged ones, which keep their order.

    If at most half are judged, the unjudged ones keep their places. Otherwise the one that comes
    after b judged ones, as number i of the unjudged ones, is ranked behind the best
    ``judged / unjudged * (b + w * i)`` judged ones. The weight w is 1 if failures are spread over
    the list, and a quarter if they are all at its head.

    For example, A to F are judged, best first, and the incoming order begins with unjudged x and y.
    Both are at its head, so w is 1/4: x (b = 0, i = 1) is ranked behind 6 / 2 * 0.25 judged ones,
    rounded down, which is none, and y (i = 2) behind 6 / 2 * 0.5, one: x A y B C D E F.

    ``incoming`` has all of them in the incoming order.
    """
    known = {*judged}
    unjudged: list[tuple[int, int]] = []  # with the number of judged ones before it
    before = 0
    for item in incoming:
        if item in known:
            before += 1
        else:
            unjudged.append((item, before))
    count, missing = len(judged), len(unjudged)
    ratio, weight = 1.0, 0.0
    if count > missing > 0:
        ratio = count / missing
        mean = sum(before for _, before in unjudged) / missing
        weight = _LEAST_WEIGHT + (1 - _LEAST_WEIGHT) * min(1.0, 2 * mean / count)
    order: list[int] = []
    placed = 0
    for number, (item, before) in enumerate(unjudged, 1):
        ahead = min(count, int(ratio * (before + weight * number)))
        order += [*judged[placed:ahead], item]
        placed = ahead
    return [*order, *judged[placed:]]


def failed(unjudged: Collection[int], issues: Iterable[Issue]) -> set[int]:
    """The unjudged candidates whose call failed, or for which there was no time.

    The others have no text, or the method declined to judge them.
    """
    if not unjudged:
        return set()
    known = {index for issue in issues if issue.code in _KNOWN for index in issue.positions}
    return {*unjudged} - known

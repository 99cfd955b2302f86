"""Who is served next by a scorer that several calls share, and who is refused.

The engines of local models and the turns of other scorers both follow it. It has no thread and no
clock: every method takes the time, so that tests simulate it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from secondpass.concurrency.cost import Cost

FIRST = 10
"""Pairs of each call that go before all others."""
RESERVE = 0.005
"""Seconds before its time ends at which a call should have its scores; late ones are lost."""
_PAIRS_TIME_SHARE = 0.9
"""Share of the time left that the pairs of a call may take, since rates vary."""
_SPARE = 0.2
"""Share of the time left that has to remain if there is time for all: other calls may come."""
_SLACK = 0.15
"""Share of a new call's time that its core leaves, unless it is too large. In a lasting overload
the queue is as long as that allows, and what is served in its last milliseconds has small batches.
"""
_FREE = 0.2
"""Pairs that take this share of a call's constant, or less, are part of the core."""
_CALL_TIME_SHARE = 0.5
"""Share of the time left that one call may take: it ends in time if it takes twice as long."""
_MOST_LEFT = 2.0
"""Seconds that count as left at the most, because the caller may leave: so a call takes a second at
the most, in which it goes on for nobody."""
_PLAN_SHARE = 1 / 16
"""A plan is made again once this share of its calls have entered, left, or been served. It takes a
pass over all of them, so that a decision takes the same time however many there are."""

Key: TypeAlias = tuple[float, ...]
"""What pairs are sorted by. The first number is 0, or 1 if the pair comes after all cores."""


@dataclass(slots=True, eq=False)
class Claim:
    """What one call claims of a shared scorer. Times are values of ``time.monotonic()``."""

    deadline: float = math.inf  # when its scores are used
    asked: float = math.inf  # when its ranking made the call, which may have waited since
    pairs: int = 0  # all of them
    core: int = 0  # number of its first pairs, up to ten, that go before all others
    core_left: int = 0  # number of those that were not begun
    begun: int = 0  # number of pairs that were begun
    first: float | None = None  # when the first one was begun
    late_from: float = math.inf  # the rank from which on pairs are late, once one is
    reference: Callable[[], object | None] | None = None
    """A weak reference to the call; without it, the claim is always held."""

    @property
    def due(self) -> float:
        """When its pairs should be scored."""
        return self.deadline - RESERVE

    def begin(self, ranks: Iterable[int], now: float) -> None:
        for rank in ranks:
            self.begun += 1
            if rank < self.core:
                self.core_left -= 1
        if self.first is None:
            self.first = now

    def waited(self, now: float) -> float:
        """Seconds until its first pair was begun, or until now; 0 if it entered no admission."""
        if self.first is None and not self.pairs:
            return 0.0
        return max(0.0, (now if self.first is None else self.first) - self.asked)


def _by_time(claim: Claim, rank: int) -> Key:
    return (0, claim.deadline, rank)


@dataclass(frozen=True, slots=True)
class Order:
    """In which order pairs are next.

    Attributes:
        fits: whether there is time for all pairs.
        key: what they are sorted by: a call's claim and the pair's rank in it, from 0. The lowest
            is next.
    """

    fits: bool = True
    key: Callable[[Claim, int], Key] = _by_time


@dataclass(slots=True)
class Admission:
    """The calls of one scorer.

    The first ten pairs of each call are its core. Which pair is next:

    1. If there is time for all pairs: those of the call whose time ends first.
    2. Otherwise, the cores before all other pairs.
       a. Cores: by rank over all calls.
       b. Cores, one of which would be late in that order: those of the call whose time ends first.
       c. Other pairs: those of the call whose time ends first.
       d. Other pairs in an overload: by rank over all calls.

    In an overload, all pairs take longer than the last call has: equal parts of all lists improve
    them more than a few whole ones.

    A call is refused if its core, or that of a call that was admitted before, could not be scored
    in time at the rate of the last batches. As cores go first and the earliest is served first,
    this is exact for a known rate. A call that comes alone is always admitted.

    Where ``in_calls`` is true, a claim's pairs are scored by calls of the scorer, of which each has
    a constant. If all claims fit, or there is one only, a call has as many pairs as half of the
    claim's time allows. Otherwise it has fewer: the first one the core, and further ones so many
    that at most half of their time is the constant.
    """

    threads: int  # number of batches, or calls, that run at a time
    in_calls: bool = False
    """Whether the scorer is called for one claim at a time, in one thread. Otherwise pairs of all
    claims share batches, on all threads, so that the constant of a batch is that of no claim."""
    claims: dict[Claim, None] = field(default_factory=dict)
    """Those of the calls that were admitted and have not left, the oldest first."""
    share: float = 1.0  # of the scorer that these calls have; others have the rest
    cost: Cost = field(init=False)  # of a call, or a batch
    _order: Order = Order()
    _changes: int = 0  # calls that entered, left or were served since the order was planned
    _kept: float = 0.0  # number of changes for which it is kept

    def __post_init__(self) -> None:
        self.cost = Cost(self.threads + 1, has_constant=self.in_calls)

    def seconds(self, pairs: float, calls: int = 1) -> float:
        """How long pairs take, on all threads."""
        return (calls * self.cost.constant + pairs * self.cost.rate) / (self.threads * self.share)

    @property
    def present(self) -> list[Claim]:
        """The claims of the calls that exist; an exception may have kept others from leaving."""
        claims = list(self.claims)  # at once: other threads may change them
        gone = [claim for claim in claims if claim.reference and claim.reference() is None]
        for claim in gone:
            self.leave(claim)
        return [claim for claim in claims if claim not in gone] if gone else claims

    @property
    def waiting_seconds(self) -> float:
        """How long a new call would wait for its first pairs: the cores of the others."""
        cores = [claim.core_left for claim in self.present if claim.core_left]
        return self.seconds(sum(cores), len(cores))

    def enter(self, claim: Claim, pairs: int, now: float) -> bool:
        """Admit a call with this number of pairs, or refuse it: False."""
        claim.pairs = pairs
        self._set_core(claim, now)
        left = claim.due - now
        slack = max(
            0.0, min(_SLACK * left, _PAIRS_TIME_SHARE * left - self._seconds_alone(claim.core))
        )
        if not self._possible(claim, now, slack):
            return False
        self.claims[claim] = None
        self._changes += 1
        return True

    def _set_core(self, claim: Claim, now: float) -> None:
        """Set how many pairs of a new call go before all others.

        If the time does not suffice for them even if there is no other call, they are fewer: what
        could be scored of this call alone.
        """
        free = self.cost.pairs_of_constant(_FREE)
        claim.core = int(min(claim.pairs, max(FIRST, free)))
        usable = (claim.due - now) * _PAIRS_TIME_SHARE
        if self.cost.is_known and self._seconds_alone(claim.core) > usable:
            claim.core = int(min(claim.core, max(1.0, self._pairs_alone(usable))))
        claim.core_left = claim.core

    def part(self, claim: Claim, rank: int, most: int, together: int, now: float) -> int:
        """How many pairs of a claim, from this rank on, its next call has: at most ``most``.

        ``together`` is the number of calls that run, with it. If fewer have run at a time so far,
        these may have to wait for each other, and all of them have to end in time.
        """
        crowd = max(1.0, together / self.cost.together)
        wanted = max(claim.core - rank, self._least() if rank else 0)
        if len(self.claims) == 1 or self.order(now).fits:
            wanted = max(wanted, self._in_one_call(claim.deadline - now) / crowd)
        fitting = self.cost.pairs(_PAIRS_TIME_SHARE * (claim.deadline - now)) / crowd
        return int(max(1, min(most, wanted, fitting)))

    def most_together(self, seconds: float) -> int:
        """How many pairs a call may have that needs no turn; 0 if no call has ended."""
        if not self.cost.is_known:
            return 0
        return int(min(max(0.0, self._in_one_call(seconds)), sys.maxsize))

    def _in_one_call(self, seconds: float) -> float:
        """How many pairs a call may have if so long is left; below 0 if its constant is longer."""
        pairs = self.cost.pairs(_CALL_TIME_SHARE * min(seconds, _MOST_LEFT))
        if self.in_calls and not self.cost.has_line:  # a longer call tells what the constant is
            longer = min(2 * self.cost.length, self.cost.pairs(_CALL_TIME_SHARE * seconds))
            return max(pairs, longer)
        return pairs

    def is_late(self, claim: Claim, rank: int, pairs: int, now: float) -> bool:
        """Whether the time of a claim does not suffice for a call of its pairs from this rank on.

        Then it does not for later ranks either: a small last call could be in time, but would score
        worse candidates than those that are left out. The first call is tried unless others wait,
        or a single slow one would prevent all further ones.

        Args:
            claim: the claim.
            rank: of the first pair of the call, from 0.
            pairs: number of pairs that the call has at most.
            now: the time.
        """
        if claim.begun:
            needed = self.cost.seconds(min(pairs, self._least()))
        else:
            needed = self.cost.seconds(1) if len(self.claims) > self.threads else 0.0
        if now + needed >= claim.deadline:
            claim.late_from = min(claim.late_from, rank)
        return rank >= claim.late_from

    def _least(self) -> float:
        """How many pairs a call beyond the core has at least."""
        return max(FIRST, self.cost.pairs_of_constant(1))

    def _seconds_alone(self, pairs: float) -> float:
        """How long pairs of a claim take if there is no other."""
        return self.cost.seconds(pairs) if self.in_calls else self.seconds(pairs)

    def _pairs_alone(self, seconds: float) -> float:
        """How many pairs of a claim can be scored in a time if there is no other."""
        return self.cost.pairs(seconds) if self.in_calls else seconds / self.seconds(1)

    def leave(self, claim: Claim) -> None:
        """Forget a call; no effect if it was refused or has left."""
        self.claims.pop(claim, None)  # at once: garbage collection may end a call in any thread
        self._changes += 1

    def served(self) -> None:
        """Count a call, or a batch, that begins."""
        self._changes += 1

    def order(self, now: float) -> Order:
        """The order of all pairs: as it was planned last, until much has changed since."""
        if self._changes > self._kept:
            claims = self.present
            self._changes, self._kept = 0, _PLAN_SHARE * len(claims)
            self._order = self._planned(claims, now)
        return self._order

    def _planned(self, claims: Sequence[Claim], now: float) -> Order:
        if self._all_fit(claims, now):
            return Order()
        cores_are_late = self._cores_are_late(claims, now)
        is_overload = self._is_overload(claims, now)

        # One function for all: it is called for each pair that waits.
        def key(claim: Claim, rank: int) -> Key:
            if rank < claim.core:
                end = claim.deadline
                return (0, end, rank) if cores_are_late else (0, rank, end)
            return (1, rank, claim.deadline) if is_overload else (1, claim.deadline, rank)

        return Order(False, key)

    def _cores_are_late(self, claims: Sequence[Claim], now: float) -> bool:
        """Whether one of the cores would be late if it were the last of them."""
        end = now + self.cost.mean + self.waiting_seconds
        return any(claim.core_left and end > claim.due for claim in claims)

    def _is_overload(self, claims: Sequence[Claim], now: float) -> bool:
        """Whether all pairs take longer than the last call has."""
        left = [number for claim in claims if (number := claim.pairs - claim.begun)]
        end = now + self.cost.mean + self.seconds(sum(left), len(left))
        return end > max(claim.deadline for claim in claims)

    def _all_fit(self, claims: Sequence[Claim], now: float) -> bool:
        """Whether all pairs of these can easily be scored in time."""
        constant, rate = self.seconds(0), self.seconds(1, calls=0)
        end = now + self.cost.mean
        for claim in sorted(claims, key=attrgetter("deadline")):
            if left := claim.pairs - claim.begun:
                end += constant + left * rate
            spare = _SPARE * (claim.deadline - now)
            if end > claim.due - spare:
                return False
        return True

    def _possible(self, claim: Claim, now: float, slack: float) -> bool:
        """Whether a new core can be scored that long before it is due, and the others in time."""
        others = [other for other in self.present if other.core_left]
        # Pairs of a batch are known when all of it is, those of a call when it has ended.
        end = now + (self.cost.seconds(claim.core) if self.in_calls else self.cost.mean)
        constant, rate = self.seconds(0), self.seconds(1, calls=0)
        added = 0.0  # what the new core adds to the end of those that are due later
        for item in sorted([*others, claim], key=attrgetter("deadline")):
            end += constant + item.core_left * rate
            if item is claim:
                added = constant + item.core_left * rate
                is_late = end > item.due - slack
            else:  # one that is late without the new core, too, does not count
                end_without = end - added
                is_late = end_without <= item.due < end
            if is_late:
                return not others  # one that comes alone is always admitted
        return True


def is_after_cores(key: Key) -> bool:
    """Whether the pair with this key comes after the cores of all calls."""
    return key[0] > 0


CLAIM: ContextVar[Claim | None] = ContextVar("secondpass_claim", default=None)
"""The claim of the scorer call that runs in this context."""

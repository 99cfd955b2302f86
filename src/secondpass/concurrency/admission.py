"""Who is served next by a scorer that several calls share, and who is refused.

The engines of local models and the turns of other scorers both follow it. It has no thread and no
clock: every method takes the time, so that tests simulate it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from secondpass.limits import MIN_DEPTH

RESERVE = 0.005
"""Seconds before its time ends at which a call should have its scores; late ones are lost."""
_SHARE = 0.9
"""Share of the time left that the pairs of a call may take, since rates vary."""
_SPARE = 0.2
"""Share of the time left that has to remain, so that calls go by time alone; others may come."""
_SLACK = 0.15
"""Share of a new call's time that its floor leaves, unless it is too large. In a lasting overload
the queue is as long as that allows, and what is served in its last milliseconds has small batches.
"""
_OUTLIER = 4
"""A batch counts as at most so many times as slow as those before: its thread may have waited."""
_MEMORY = 0.9
"""Weight of the batches before in the measured rate, per batch."""

Key: TypeAlias = tuple[float, ...]


@dataclass(slots=True, eq=False)
class Claim:
    """What one call claims of a shared scorer. Times are values of ``time.monotonic()``."""

    deadline: float = math.inf  # when its scores are used
    target: float = math.inf  # when they should be used
    min_depth: int = MIN_DEPTH  # pairs that are scored in spite of the target
    asked: float = math.inf  # when its ranking made the call, which may have waited since
    pairs: int = 0  # all of them
    floor: int = 0  # the first pairs, up to `min_depth`, that go before all others
    floor_left: int = 0  # number of those that were not begun
    due: float = math.inf  # when they should be scored
    begun: int = 0  # number of pairs that were begun
    first: float | None = None  # when the first one was begun
    holder: Callable[[], object | None] | None = None
    """Returns None as soon as nothing refers to the call; without it, the claim is always held."""
    until: float = field(init=False)  # when pairs beyond the floor have to be scored

    def __post_init__(self) -> None:
        self.until = min(self.deadline, self.target)

    def latest(self, rank: int) -> float:
        """When a pair has to be scored; ranks start at 0."""
        return self.deadline if rank < self.floor else self.until

    def begin(self, ranks: Iterable[int], now: float) -> None:
        for rank in ranks:
            self.begun += 1
            self.floor_left -= rank < self.floor
        if self.first is None:
            self.first = now

    def waited(self, now: float) -> float:
        """Seconds until its first pair was begun, or until now; 0 if it entered no admission."""
        if self.first is None and not self.pairs:
            return 0.0
        return max(0.0, (now if self.first is None else self.first) - self.asked)


@dataclass(slots=True)
class Admission:
    """The calls of one scorer.

    While all pairs of all calls can easily be scored in time, the call whose time ends first goes
    first. Otherwise the first ``min_depth`` pairs of each call, its floor, go before all others, by
    rank over all calls; or, once one of them would be late by that, by the time at which they are
    due. The others go to the call whose time ends first; or, if all pairs take longer than the last
    call has, by rank over all calls: equal parts of all lists improve them more than a few whole
    ones.

    A call is refused if its floor, or that of a call that was admitted before, could not be scored
    in time at the rate of the last batches. As floors go first and the earliest is served first,
    this is exact for a known rate. A call that comes alone is always admitted.
    """

    threads: int  # number of batches that run at a time
    claims: dict[Claim, None] = field(default_factory=dict)
    """Those of the calls that were admitted and have not left, the oldest first."""
    share: float = 1.0  # of the scorer that these calls have; others have the rest
    _pairs: float = 0.0
    _seconds: float = 0.0
    _batches: float = 0.0
    _ended: int = 0

    @property
    def seconds_per_pair(self) -> float:
        """Of one thread, by the last batches; 0 if none has ended."""
        return self._seconds / self._pairs if self._pairs else 0.0

    def learn(self, pairs: int, seconds: float) -> None:
        """Count a batch that has ended.

        The first one of each thread is forgotten once another is much faster: it may have waited
        for a model to load.
        """
        if pairs and seconds > 0:
            self._ended += 1
            is_first = self._ended <= self.threads + 1
            if is_first and self.seconds_per_pair > seconds / pairs * _OUTLIER:
                self._pairs = self._seconds = self._batches = 0.0
            if self._pairs:
                seconds = min(seconds, pairs * self.seconds_per_pair * _OUTLIER)
            self._pairs = self._pairs * _MEMORY + pairs
            self._seconds = self._seconds * _MEMORY + seconds
            self._batches = self._batches * _MEMORY + 1

    def seconds(self, pairs: float) -> float:
        """How long pairs take, on all threads."""
        return pairs * self.seconds_per_pair / (self.threads * self.share)

    @property
    def present(self) -> list[Claim]:
        """The claims of the calls that exist; an exception may have kept others from leaving."""
        claims = list(self.claims)  # at once: other threads may change them
        gone = [claim for claim in claims if claim.holder is not None and claim.holder() is None]
        for claim in gone:
            self.leave(claim)
        return [claim for claim in claims if claim not in gone] if gone else claims

    @property
    def waiting_seconds(self) -> float:
        """How long a new call would wait for its first pairs: the floors of the others."""
        return self.seconds(sum(claim.floor_left for claim in self.present))

    def enter(self, claim: Claim, pairs: int, now: float) -> bool:
        """Admit a call with this number of pairs, or refuse it: False."""
        claim.pairs = pairs
        claim.floor = min(claim.min_depth, pairs)
        claim.due = (claim.deadline if claim.deadline < math.inf else claim.target) - RESERVE
        alone = self.seconds(claim.floor)
        if self._pairs and alone > (left := claim.due - now) * _SHARE:
            if claim.deadline < math.inf:  # its floor is what could be scored for it alone
                fitting = int(left * _SHARE / self.seconds(1))
                claim.floor = min(claim.floor, max(1, fitting))
            else:  # a target is missed rather than fewer pairs scored
                claim.due = now + alone / _SHARE
        claim.floor_left = claim.floor
        left = claim.due - now
        slack = max(0.0, min(_SLACK * left, _SHARE * left - self.seconds(claim.floor)))
        if not self._possible(claim, now, slack):
            return False
        self.claims[claim] = None
        return True

    def leave(self, claim: Claim) -> None:
        """Forget a call; no effect if it was refused or has left."""
        self.claims.pop(claim, None)  # at once: garbage collection may end a call in any thread

    def key(self, now: float) -> Callable[[Claim, int], Key]:
        """What pairs are sorted by now: of a call's claim and the pair's rank in it, from 0.

        The lowest is next.
        """
        seconds, start = self.seconds(1), now + self._margin
        claims = sorted(self.present, key=attrgetter("until"))
        end, fits = start, True
        for claim in claims:
            end += (claim.pairs - claim.begun) * seconds
            fits = fits and end <= claim.until - RESERVE - _SPARE * (claim.until - now)
        if fits:
            return _by_time
        is_overload = end > claims[-1].until
        end = start + sum([claim.floor_left for claim in claims]) * seconds
        is_late = any(claim.floor_left and end > claim.due for claim in claims)

        def key(claim: Claim, rank: int) -> Key:
            if rank < claim.floor:
                return (0, claim.due, rank) if is_late else (0, rank, claim.due)
            return (1, rank, claim.until) if is_overload else (1, claim.until, rank)

        return key

    @property
    def _margin(self) -> float:
        """Seconds of a batch: that long after its pairs could be, a floor is known."""
        return self._seconds / self._batches if self._batches else 0.0

    def _possible(self, claim: Claim, now: float, slack: float) -> bool:
        """Whether a new floor can be scored that long before it is due, and the others in time."""
        others = [other for other in self.present if other.floor_left]
        end = now + self._margin
        own = 0.0
        for other in sorted([*others, claim], key=lambda one: one.due):
            end += self.seconds(other.floor_left)
            due = other.due
            if other is claim:
                own = self.seconds(claim.floor_left)
                due -= slack
            # Of a call that is late already, only the time of its floor counts.
            if end > due and (other is claim or due >= end - own):
                return not others
        return True


def _by_time(claim: Claim, rank: int) -> Key:
    return (0, claim.until, rank)


CLAIM: ContextVar[Claim | None] = ContextVar("secondpass_claim", default=None)
"""The claim of the scorer call that runs in this context."""

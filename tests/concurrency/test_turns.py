"""Turns of rankings that share a scorer, with a simulated clock: calls, and what they score."""

import heapq
import itertools
import math
import random
import time
from types import SimpleNamespace

import pytest

from secondpass import Reranker
from secondpass.concurrency.admission import Admission, Claim
from secondpass.concurrency.turns import Sharing, Turns
from secondpass.errors import OverloadedError

COSTS = {
    "constant": lambda pairs: 0.02,
    "rate": lambda pairs: 0.001 * pairs,
    "mixed": lambda pairs: 0.01 + 0.0005 * pairs,
}
RUNNING = SimpleNamespace(is_running=lambda: True)
"""The event loop of all rankings: a thread would be in one turn at a time."""
LENGTHS = {"20": [20], "100": [100], "1 to 100": [1, 5, 20, 50, 100]}


class Ranking:
    """A ranking of a simulation.

    Attributes:
        calls: numbers of pairs of its calls.
        scored: number of its pairs that were scored.
        refused: whether it was refused.
    """

    def __init__(self, arrives, pairs, seconds, batch_size=None):
        self.claim = Claim(arrives + seconds, arrives)
        self.arrives, self.pairs = arrives, pairs
        self.batch_size = batch_size
        self.calls = []
        self.scored = 0
        self.refused = False
        self.turn = None

    @property
    def is_whole(self):
        return self.scored == self.pairs


class Simulation:
    """Runs rankings in turns of one scorer.

    Args:
        seconds: of a call, by its number of pairs.
        width: number of turns at a time.
        inside: number of calls that the scorer runs at a time, if that is less.
    """

    def __init__(self, seconds, width, inside=None):
        self.turns = Turns(width)
        self._seconds = seconds
        self._free = None if inside is None else [0.0] * inside
        self._now = 0.0
        self._count = itertools.count()
        self._events = []

    def at(self, time, act, *arguments):
        heapq.heappush(self._events, (time, next(self._count), act, arguments))

    def run(self, rankings):
        for ranking in rankings:
            ranking.sharing = Sharing(
                object, ranking.pairs, ranking.batch_size, ranking.batch_size or 32
            )
            ranking.sharing.turns = self.turns
            self.at(ranking.arrives, self.take, ranking)
        while self._events:
            self._now, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)
        assert self.turns.admission.claims == {}
        assert (self.turns._running, self.turns._waiting) == ([], [])
        return rankings

    def take(self, ranking):
        left = ranking.pairs - sum(ranking.calls)
        if not left:
            ranking.sharing.end()
            return
        most = min(left, ranking.batch_size or left)
        number = next(self._count)

        def begin():
            self.at(self._now, self.begin, ranking, number)

        ranking.number = number
        try:
            ranking.turn = ranking.sharing.turn(
                lambda: ranking.claim,
                most,
                begin,
                lambda: ranking,
                loop=RUNNING,
                now=self._now,
            )
            ranking.sharing.turns.take(ranking.turn, self._now)
        except OverloadedError:
            ranking.refused = True
            ranking.sharing.end()
            return
        latest = ranking.claim.deadline
        if latest < math.inf:
            self.at(max(latest, self._now), self.begin, ranking, number)

    def begin(self, ranking, number):
        turn = ranking.turn
        is_over = self._now >= ranking.claim.deadline
        if number != ranking.number or (turn.state == "waiting" and not is_over):
            return
        ranking.number = None
        if turn.state != "running":
            self.turns.end(turn, self._now)
            ranking.sharing.end()
            return
        turn.began = self._now
        ranking.calls.append(turn.pairs)
        start = self._now
        if self._free is not None:
            start = max(start, heapq.heappop(self._free))
            heapq.heappush(self._free, start + self._seconds(turn.pairs))
        end = start + self._seconds(turn.pairs)
        self.at(min(end, ranking.claim.deadline), self.end, ranking, end)

    def end(self, ranking, end):
        in_time = end <= self._now
        self.turns.end(ranking.turn, self._now, scored=in_time, interrupted=not in_time)
        ranking.scored += ranking.turn.pairs * in_time
        self.take(ranking)


def poisson(load, cost, lengths, width, times, count=1200, seed=1, **options):
    """Rankings at this share of the capacity; their deadline is so many times the longest call."""
    draw = random.Random(seed)
    sizes = [draw.choice(lengths) for _ in range(count)]
    rate = load * width / (sum(map(cost, sizes)) / count)
    arrivals = itertools.accumulate(draw.expovariate(rate) for _ in sizes)
    seconds = times * cost(max(lengths))
    return [
        Ranking(arrives, pairs, seconds, **options)
        for arrives, pairs in zip(arrivals, sizes, strict=True)
    ]


@pytest.mark.parametrize("width", [2, 6])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_at_half_capacity_a_limit_costs_no_calls_and_no_scores(cost, lengths, width):
    rankings = Simulation(cost, width).run(poisson(0.5, cost, lengths, width, 15))
    assert not any(ranking.refused for ranking in rankings)
    assert all(ranking.is_whole for ranking in rankings)
    assert sum(len(ranking.calls) for ranking in rankings) <= 1.05 * len(rankings)


@pytest.mark.parametrize("batch_size", [7, 64])
def test_no_call_has_more_than_the_batch_size(batch_size):
    cost = COSTS["mixed"]
    rankings = poisson(0.2, cost, [1, 20, 100], 6, 100, count=200, batch_size=batch_size)
    Simulation(cost, 6).run(rankings)
    assert max(max(ranking.calls) for ranking in rankings) <= batch_size
    for ranking in rankings[10:]:  # the first calls are small
        assert len(ranking.calls) == math.ceil(ranking.pairs / batch_size)


@pytest.mark.parametrize("load", [2, 4])
@pytest.mark.parametrize("pairs", [20, 100])
def test_in_an_overload_calls_of_constant_time_are_whole(pairs, load):
    """Of what fits, nearly all rankings are scored whole; the others are refused."""
    cost = COSTS["constant"]
    rankings = Simulation(cost, 6).run(poisson(load, cost, [pairs], 6, 6))
    whole = sum(ranking.is_whole for ranking in rankings) / len(rankings)
    assert whole >= 0.85 / load
    assert sum(ranking.scored >= 10 for ranking in rankings) >= 0.98 * len(rankings) / load


@pytest.mark.parametrize(("pairs", "least"), [(20, 0.5), (100, 1.0)])
@pytest.mark.parametrize(("width", "inside"), [(6, None), (6, 2)])
def test_in_an_overload_all_have_their_first_scored_as_far_as_possible(pairs, least, width, inside):
    """Of 20 pairs, half the rankings can at 4 times the capacity; of 100, all can."""
    cost = COSTS["rate"]
    rankings = poisson(4, cost, [pairs], inside or width, 6)
    Simulation(cost, width, inside).run(rankings)
    first = sum(ranking.scored >= 10 for ranking in rankings) / len(rankings)
    assert first >= least * 0.95
    if pairs == 100:
        scored = sorted(ranking.scored for ranking in rankings)
        assert scored[-len(scored) // 20] <= 50  # equal parts rather than a few whole lists


def test_calls_of_a_scorer_of_unknown_cost_have_32_pairs_at_most():
    first, second = Simulation(COSTS["rate"], 6).run([Ranking(0, 100, 9), Ranking(1, 100, 9)])
    assert (first.calls[0], second.calls) == (32, [100])


def test_a_list_that_takes_most_of_its_time_is_split():
    """So that a call that is slower than expected costs a part of the scores."""
    cost = COSTS["rate"]
    _, alone = Simulation(cost, 6).run([Ranking(0, 100, 9), Ranking(9, 100, 0.125)])
    assert alone.is_whole
    assert 2 <= len(alone.calls) <= 5
    too_long = Ranking(9, 300, 0.125)
    Simulation(cost, 6).run([Ranking(0, 100, 9), too_long])
    assert 95 <= too_long.scored < 125
    assert min(too_long.calls) >= 10


@pytest.mark.parametrize(
    ("constant", "rate", "deadline"),
    [(0, 0.05, 0.5), (0, 0.075, 1), (0, 0.02, 0.5), (0.1, 0.02, 0.5), (0.02, 0.1, 1), (0, 0.3, 2)],
)
def test_calls_that_are_cut_off_shrink_until_one_is_in_time(constant, rate, deadline):
    """Although nothing is ever learned of how long they take."""
    simulation = Simulation(lambda pairs: constant + rate * pairs, 6)
    rankings = simulation.run([Ranking(30 * number, 100, deadline) for number in range(12)])
    possible = (deadline - constant) / rate
    assert all(ranking.scored >= 0.45 * possible for ranking in rankings[4:])


def test_a_scorer_that_becomes_slow_is_called_for_less():
    rate = 0.01
    simulation = Simulation(lambda pairs: rate * pairs, 6)
    simulation.run([Ranking(30 * number, 100, 0.5) for number in range(20)])
    rate = 0.08  # 6 in time
    slow = simulation.run([Ranking(1000 + 30 * number, 100, 0.5) for number in range(10)])
    assert all(ranking.scored >= 3 for ranking in slow[5:])


def test_after_calls_that_hung_a_fast_one_is_known_as_such():
    hangs = False
    simulation = Simulation(lambda pairs: 0.001 * pairs + 10 * hangs, 6)
    simulation.run([Ranking(30 * number, 100, 0.2) for number in range(5)])
    hangs = True
    simulation.run([Ranking(1000 + 30 * number, 100, 0.2) for number in range(8)])
    hangs = False
    _, *after = simulation.run([Ranking(2000 + 30 * number, 100, 0.2) for number in range(3)])
    assert all(ranking.is_whole for ranking in after)


def test_one_call_that_hangs_costs_later_ones_little():
    hangs = False
    simulation = Simulation(lambda pairs: 0.01 * pairs + 10 * hangs, 6)
    *_, before = simulation.run([Ranking(30 * number, 100, 0.5) for number in range(20)])
    hangs = True
    simulation.run([Ranking(1000, 100, 0.5)])
    hangs = False
    after = simulation.run([Ranking(2000 + 30 * number, 100, 0.5) for number in range(8)])
    assert all(ranking.scored >= 0.75 * before.scored for ranking in after)


@pytest.mark.parametrize("same_time", [True, False])
def test_a_turn_takes_the_same_work_however_many_rankings_wait(same_time, monkeypatch):
    """In claims and turns that were looked at."""
    looked_at = 0

    def is_late(*arguments):
        nonlocal looked_at
        looked_at += 1
        return before[0](*arguments)

    def all_fit(admission, claims, now):
        nonlocal looked_at
        looked_at += len(claims)
        return before[1](admission, claims, now)

    before = Admission.is_late, Admission._all_fit
    monkeypatch.setattr(Admission, "is_late", is_late)
    monkeypatch.setattr(Admission, "_all_fit", all_fit)
    arrivals = [0.0] * 1000 if same_time else [0.002 * number for number in range(1000)]
    rankings = [Ranking(arrives, 32, 30.0, batch_size=8) for arrives in arrivals]
    Simulation(COSTS["constant"], 6).run(rankings)
    turns = sum(len(ranking.calls) for ranking in rankings)
    assert turns >= 4000
    assert looked_at < 100 * turns


def test_a_scorer_that_lets_calls_wait_for_each_other_is_not_called_with_long_lists_at_once():
    """Its calls have run alone before, so that their cost says nothing of several at a time."""
    cost = COSTS["rate"]
    simulation = Simulation(cost, 6, 1)
    simulation.run([Ranking(number, 100, 0.3) for number in range(20)])
    rankings = simulation.run([Ranking(100 + number / 30, 100, 0.3) for number in range(60)])
    assert sum(ranking.scored >= 10 for ranking in rankings) >= 0.9 * len(rankings)


def test_the_first_calls_of_a_scorer_are_small_if_there_are_several():
    cost = COSTS["rate"]
    rankings = [Ranking(number / 30, 100, 0.3) for number in range(60)]
    Simulation(cost, 6, 1).run(rankings)
    assert rankings[0].calls[0] == 32
    assert sum(ranking.scored >= 10 for ranking in rankings) >= 0.9 * len(rankings)


class Slow:
    """Takes a time for each text, in batches."""

    model_name = "slow"

    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.scored = []

    def score_pairs(self, query, documents):
        time.sleep(0.01 * len(documents))
        self.scored += map(int, documents)
        return [1.0] * len(documents)


@pytest.mark.parametrize("batch_size", [3, 5, 7])
def test_no_candidate_is_scored_after_one_that_was_late(batch_size):
    """Although a small last batch would be in time."""
    scorer = Slow(batch_size)
    ranking = Reranker(scorer).rerank("q", [*map(str, range(50))], deadline=0.12)
    assert scorer.scored == [*range(len(scorer.scored))]
    assert ranking.report.status in {"partial", "unchanged"}

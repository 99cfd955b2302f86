"""The ledger by itself: what it counts, what it refuses, what it expects to be left."""

import asyncio
import time

import pytest

from secondpass import ConfigurationError
from secondpass.effects import Completion, Estimate
from secondpass.errors import BudgetError, NestedCallError
from secondpass.limits import Limits, Prices
from secondpass.runtime.gate import Gate
from secondpass.runtime.ledger import Ledger

QUESTION = Estimate(900, 100)
PRICES = Prices(2, 10)  # a question costs 0.0018 + 0.001


def told(*tokens):
    return Completion("", False, *tokens)


def ask(ledger, completion, prices=None, estimate=QUESTION):
    ledger.reserve(estimate, prices)
    ledger.settle(estimate, prices, completion)


# ---------------------------------------------------------------------- usage

USAGE = [
    # completions; prices; input tokens, output tokens, cost
    ([], None, (None, None, None)),
    ([told(10, 5)], None, (10, 5, None)),
    ([told(10, 5), told(30, 7)], None, (40, 12, None)),
    ([told(0, 0)], PRICES, (0, 0, 0.0)),
    ([told(1_000_000, 100_000)], PRICES, (1_000_000, 100_000, 3.0)),
    ([told(10, 5), told(None, None)], PRICES, (None, None, None)),
    ([told(None, None)], PRICES, (None, None, None)),
    ([told(10, None)], PRICES, (None, None, None)),
    ([told(None, 5)], PRICES, (None, None, None)),
]


@pytest.mark.parametrize(("completions", "prices", "usage"), USAGE)
def test_sums_that_a_server_has_not_told_all_of_are_none(completions, prices, usage):
    ledger = Ledger()
    for completion in completions:
        ask(ledger, completion, prices)
    got = ledger.usage()
    assert (got.input_tokens, got.output_tokens) == usage[:2]
    assert got.cost == (None if usage[2] is None else pytest.approx(usage[2]))
    assert got.calls == len(completions)


def test_a_cost_that_holds_for_a_part_only_is_none():
    ledger = Ledger()
    ask(ledger, told(10, 5), PRICES)
    ask(ledger, told(10, 5), None)
    assert ledger.usage().cost is None
    assert ledger.usage().input_tokens == 20


def test_what_failed_counts_as_a_call_and_costs_nothing():
    ledger = Ledger(Limits(tokens=1500))
    ledger.reserve(QUESTION, None)
    ledger.release(QUESTION, None)
    ask(ledger, told(900, 100))
    assert ledger.usage().calls == 2
    assert ledger.usage().input_tokens == 900


def test_what_was_not_sent_is_no_call():
    ledger = Ledger(Limits(calls=1))
    ledger.calls += 2  # of scorers
    for _ in range(3):
        ledger.reserve(QUESTION, None)
        assert (ledger.questions, ledger.calls) == (1, 3)
        ledger.release(QUESTION, None, sent=False)
        assert (ledger.questions, ledger.calls) == (0, 2)


def test_usage_has_rounds_and_pairs():
    usage = Ledger(rounds=2, pairs=7).usage()
    assert (usage.rounds, usage.pairs) == (2, 7)


def test_a_question_may_cost_all_that_is_left():
    prices = Prices(1, 0)
    ledger = Ledger(Limits(cost=0.5))
    ledger.reserve(Estimate(500_000, 0), prices)
    with pytest.raises(BudgetError):
        ledger.reserve(Estimate(1, 0), prices)


def test_sums_are_none_where_a_question_was_given_up_on():
    ledger = Ledger()
    ask(ledger, told(900, 100), PRICES)
    ledger.reserve(QUESTION, PRICES)
    ledger.charge_estimate(QUESTION, PRICES)
    usage = ledger.usage()
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (None, None, None)


# ---------------------------------------------------------------------- budgets


def test_calls_are_counted_when_they_begin():
    ledger = Ledger(Limits(calls=2))
    ledger.reserve(QUESTION, None)
    ledger.reserve(QUESTION, None)
    ledger.release(QUESTION, None)
    with pytest.raises(BudgetError, match="all 2 calls"):
        ledger.reserve(QUESTION, None)
    assert ledger.calls == 2


BUDGETS = [(Limits(tokens=2500), None), (Limits(cost=0.007), PRICES)]


@pytest.mark.parametrize(("limits", "prices"), BUDGETS)
def test_what_is_under_way_counts_as_it_was_estimated(limits, prices):
    ledger = Ledger(limits)
    ledger.reserve(QUESTION, prices)
    ledger.reserve(QUESTION, prices)
    with pytest.raises(BudgetError, match="the next question would"):
        ledger.reserve(QUESTION, prices)
    assert ledger.calls == 2  # what is refused is no call
    # One of them costs a tenth of what was expected, so another fits in.
    ledger.settle(QUESTION, prices, told(90, 10))
    ledger.reserve(QUESTION, prices)


@pytest.mark.parametrize(("limits", "prices"), BUDGETS)
def test_what_failed_makes_room_and_what_was_given_up_on_does_not(limits, prices):
    ledger = Ledger(limits)
    for _ in range(5):
        ledger.reserve(QUESTION, prices)
        ledger.release(QUESTION, prices)
    for _ in range(2):
        ledger.reserve(QUESTION, prices)
        ledger.charge_estimate(QUESTION, prices)
    with pytest.raises(BudgetError):
        ledger.reserve(QUESTION, prices)


def test_a_server_that_tells_no_tokens_is_charged_the_estimate():
    ledger = Ledger(Limits(tokens=1999))
    ask(ledger, told(None, None))
    with pytest.raises(BudgetError):
        ledger.reserve(QUESTION, None)


def test_the_first_question_may_take_all_and_no_more():
    Ledger(Limits(tokens=1000)).reserve(QUESTION, None)
    with pytest.raises(BudgetError):
        Ledger(Limits(tokens=999)).reserve(QUESTION, None)


# ---------------------------------------------------------------------- rounds

ROUNDS = [
    (Limits(), 0, None),
    (Limits(calls=5), 0, 5),
    (Limits(calls=5), 2, 3),
    (Limits(calls=5), 5, 0),
    # Nothing is known of tokens before the first question.
    (Limits(tokens=10_000), 0, None),
    (Limits(tokens=10_000), 1, 9),
    (Limits(tokens=10_000), 4, 6),
    (Limits(tokens=1000), 1, 0),
    (Limits(calls=5, tokens=3500), 1, 2),
    (Limits(cost=0.0029), 1, 0),
    (Limits(cost=0.0085), 1, 2),
]


@pytest.mark.parametrize(("limits", "asked", "left"), ROUNDS)
def test_rounds_left_by_what_those_before_took(limits, asked, left):
    ledger = Ledger(limits)
    for _ in range(asked):
        ask(ledger, told(900, 100), PRICES)
    assert ledger.rounds_left() == left


@pytest.mark.parametrize(
    "limits", [{"tokens": 10**400}, {"cost": 1e308}, {"calls": 10**400}, {"deadline": 1e308}]
)
def test_enormous_limits_leave_many_rounds(limits):
    ledger = Ledger(Limits(**limits))
    prices = Prices(1e-300, 1e-300)
    ask(ledger, told(900, 100), prices)
    ledger.add_question_round(1e-9)
    left = ledger.rounds_left()
    assert left is not None
    assert left > 10**12


def test_rounds_left_by_the_clock():
    ledger = Ledger(Limits(deadline=100))
    assert ledger.rounds_left() is None
    ledger.add_question_round(10)
    assert ledger.rounds_left() == 8  # of 12 seconds each: some take longer than the mean
    ledger.add_question_round(30)
    assert ledger.rounds_left() == 4
    ledger.started -= 60
    assert ledger.rounds_left() == 1
    ledger.started -= 60
    assert ledger.rounds_left() == 0


def test_rounds_that_took_no_time_leave_some():
    ledger = Ledger(Limits(deadline=100))
    ledger.add_question_round(0.0)
    left = ledger.rounds_left()
    assert left is not None
    assert left > 50


# ---------------------------------------------------------------------- the clock


def test_the_clock_of_what_waits_starts_with_its_first_call():
    ledger = Ledger(Limits(deadline=5), time.perf_counter() - 60, waiting=True)
    assert ledger.seconds_left == 0
    ledger.start_clock()
    assert ledger.seconds_left is not None
    assert ledger.seconds_left > 4
    started = ledger.started
    ledger.start_clock()
    assert ledger.started == started


def test_left_is_none_without_a_deadline_and_never_below_nothing():
    assert Ledger().seconds_left is None
    assert Ledger(Limits(deadline=1), time.perf_counter() - 60).seconds_left == 0.0


# ---------------------------------------------------------------------- settings

WRONG = [
    {"deadline": 0},
    {"deadline": -1},
    {"deadline": float("nan")},
    {"deadline": "20"},
    {"calls": 0},
    {"calls": 1.5},
    {"calls": True},
    {"tokens": 0},
    {"tokens": -5},
    {"cost": 0},
    {"cost": float("nan")},
    {"concurrency": 0},
    {"retries": -1},
    {"repair": 2},
    {"repair": -1},
    {"timeout": 3},
]


@pytest.mark.parametrize("settings", WRONG, ids=str)
def test_limits_that_cannot_be_are_refused(settings):
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Limits(**settings)


@pytest.mark.parametrize("settings", [{"input": -1, "output": 1}, {"input": 1}, {"output": "1"}])
def test_prices_that_cannot_be_are_refused(settings):
    with pytest.raises(ConfigurationError):
        Prices(**settings)


def test_prices_are_per_million():
    assert Prices(3, 15).of(1_000_000, 0) == 3
    assert Prices(3, 15).of(0, 2_000_000) == 30
    assert Prices(0, 0).of(10, 10) == 0


# ---------------------------------------------------------------------- the gate


def test_a_gate_is_one_for_each_loop():
    gate = Gate(1)

    async def same():
        return gate.in_this_loop(), gate.in_this_loop()

    first, again = asyncio.run(same())
    assert first is again
    other, _ = asyncio.run(same())
    assert other is not first


def test_a_gate_lets_through_as_many_as_it_is_wide():
    gate, under_way, most = Gate(3), 0, 0

    async def one():
        nonlocal under_way, most
        async with gate.in_this_loop():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

    async def many():
        await asyncio.gather(*(one() for _ in range(20)))

    for _ in range(2):  # a gate serves one loop after the other
        asyncio.run(many())
    assert most == 3


def test_the_gate_forgets_loops_that_are_closed():
    gate = Gate(1)

    async def wait_for_a_turn():
        async def turn():
            async with gate.in_this_loop():
                await asyncio.sleep(0)

        await asyncio.gather(turn(), turn())

    for _ in range(5):
        asyncio.run(wait_for_a_turn())
    assert len(gate._slots) == 1


def test_nested_turns_leave_nothing_behind():
    """Two hold turns and want another each: the first waits, and gets that of the second."""
    gate = Gate(2)
    refused, ended = [], []

    async def outer(number, inside):
        async with gate.in_this_loop():
            inside.release()
            await both.acquire()
            try:
                await asyncio.create_task(inner(number))
            except NestedCallError:
                refused.append(number)
        # Its turn was given back: it may take one again, and wait for it.
        async with gate.in_this_loop():
            ended.append(number)

    async def inner(number):
        async with gate.in_this_loop():
            ended.append(number)

    async def main():
        nonlocal both
        inside, both = asyncio.Semaphore(0), asyncio.Semaphore(0)
        tasks = [asyncio.create_task(outer(number, inside)) for number in range(2)]
        for _ in tasks:
            await inside.acquire()
        for _ in tasks:
            both.release()
        await asyncio.gather(*tasks)
        slots = gate.in_this_loop()
        return slots._blocked, slots._holders

    both = None
    assert asyncio.run(main()) == ([], {})
    assert refused == [1]
    assert sorted(ended) == [0, 0, 1]


def test_a_turn_that_was_given_back_blocks_no_later_one():
    gate = Gate(1)

    async def hold(go):
        async with gate.in_this_loop():
            await go.wait()

    async def main():
        async with gate.in_this_loop():
            pass
        go = asyncio.Event()
        other = asyncio.create_task(hold(go))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(hold(go))  # knows the turn above, which is over
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(other, waiting)

    asyncio.run(main())

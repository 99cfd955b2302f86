"""The ledger: what it counts, refuses, and expects to be left."""

import logging
import time
from dataclasses import replace

import pytest

from secondpass.errors import BudgetError
from secondpass.limits import Limits, Prices
from secondpass.questions import Completion, Estimate
from secondpass.ranking.ledger import Ledger, PassCall
from secondpass.types import EngineInfo, Issue

QUESTION = Estimate(900, 100)
PRICES = Prices(2, 10)  # a question costs 0.0018 + 0.001


def usage_of(*tokens):
    return Completion("", False, *tokens)


def ask(ledger, completion, prices=None, estimate=QUESTION):
    ledger.reserve(estimate, prices)
    ledger.settle(estimate, prices, completion)


# ---------------------------------------------------------------------- usage

USAGE = [
    # completions; prices; input tokens, output tokens, cost
    ([], None, (None, None, None)),
    ([usage_of(10, 5)], None, (10, 5, None)),
    ([usage_of(10, 5), usage_of(30, 7)], None, (40, 12, None)),
    ([usage_of(0, 0)], PRICES, (0, 0, 0.0)),
    ([usage_of(1_000_000, 100_000)], PRICES, (1_000_000, 100_000, 3.0)),
    ([usage_of(10, 5), usage_of(None, None)], PRICES, (None, None, None)),
    ([usage_of(None, None)], PRICES, (None, None, None)),
    ([usage_of(10, None)], PRICES, (None, None, None)),
    ([usage_of(None, 5)], PRICES, (None, None, None)),
]


@pytest.mark.parametrize(("completions", "prices", "usage"), USAGE)
def test_incomplete_sums_are_none(completions, prices, usage):
    ledger = Ledger()
    for completion in completions:
        ask(ledger, completion, prices)
    got = ledger.usage()
    assert (got.input_tokens, got.output_tokens) == usage[:2]
    assert got.cost == (None if usage[2] is None else pytest.approx(usage[2]))
    assert got.calls == len(completions)


@pytest.mark.parametrize(
    ("units", "total"),
    [([], None), ([None], None), ([2.0], 2.0), ([1, None, 0.5], 1.5), ([0], 0.0)],
)
def test_units_are_summed_where_they_are_reported(units, total):
    ledger = Ledger()
    for number in units:
        ask(ledger, replace(usage_of(10, 5), units=number))
    assert ledger.usage().units == total


def test_failed_questions_are_free_calls():
    ledger = Ledger(Limits(calls=2, tokens=1500))
    ledger.reserve(QUESTION, None)
    ledger.release(QUESTION, None)
    ask(ledger, usage_of(900, 100))
    with pytest.raises(BudgetError, match="all 2 calls"):
        ledger.reserve(QUESTION, None)
    assert (ledger.usage().calls, ledger.usage().input_tokens) == (2, 900)


def test_unsent_questions_are_no_calls():
    ledger = Ledger(Limits(calls=1))
    ledger.calls += 2  # of scorers
    for _ in range(3):
        ledger.reserve(QUESTION, None)
        assert (ledger.questions, ledger.calls) == (1, 3)
        ledger.release(QUESTION, None, sent=False)
        assert (ledger.questions, ledger.calls) == (0, 2)


def test_engines_and_issues_are_listed_once():
    one = EngineInfo("cross_encoder", "onnx", "float32", 2, "one at a time", "installed")
    other = replace(one, backend="torch")
    ledger = Ledger()
    for engine in (one, replace(one), other):
        ledger.add_engine(engine)
    assert ledger.engines == [one, other]
    for code in ("response_cache_failed", "response_cache_failed", "cost_unknown"):
        ledger.add_issue(code, "why")
    assert ledger.issues == [Issue("response_cache_failed", "why"), Issue("cost_unknown", "why")]


# ---------------------------------------------------------------------- budgets


BUDGETS = [(Limits(tokens=2500), None), (Limits(cost=0.007), PRICES)]


@pytest.mark.parametrize(("limits", "prices"), BUDGETS)
def test_pending_questions_count_as_estimated(limits, prices):
    ledger = Ledger(limits)
    ledger.reserve(QUESTION, prices)
    ledger.reserve(QUESTION, prices)
    with pytest.raises(BudgetError, match="the next question would"):
        ledger.reserve(QUESTION, prices)
    assert ledger.calls == 2  # what is refused is no call
    # One of them costs a tenth of what was expected, so another fits in.
    ledger.settle(QUESTION, prices, usage_of(90, 10))
    ledger.reserve(QUESTION, prices)


@pytest.mark.parametrize(("limits", "prices"), BUDGETS)
def test_only_released_questions_free_budget(limits, prices):
    ledger = Ledger(limits)
    for _ in range(5):
        ledger.reserve(QUESTION, prices)
        ledger.release(QUESTION, prices)
    for _ in range(2):
        ledger.reserve(QUESTION, prices)
        ledger.charge_estimate(QUESTION, prices)
    with pytest.raises(BudgetError):
        ledger.reserve(QUESTION, prices)


def test_first_question_fits_exactly():
    Ledger(Limits(tokens=1000)).reserve(QUESTION, None)
    with pytest.raises(BudgetError):
        Ledger(Limits(tokens=999)).reserve(QUESTION, None)


# ---------------------------------------------------------------------- rounds

ROUNDS = [
    # limits, questions that were asked, questions of a round, rounds that are left
    (Limits(), 0, 1, None),
    (Limits(), 1, 3, None),
    (Limits(calls=5), 0, 1, 5),
    (Limits(calls=5), 2, 1, 3),
    (Limits(calls=5), 5, 1, 0),
    (Limits(calls=8), 1, 3, 2),
    (Limits(calls=2), 0, 3, 0),
    # Nothing is known of tokens before the first question.
    (Limits(tokens=10_000), 0, 1, None),
    (Limits(tokens=10_000), 1, 1, 9),
    (Limits(tokens=10_000), 4, 1, 6),
    (Limits(tokens=10_000), 1, 3, 3),
    (Limits(tokens=10_000), 1, 10, 0),
    (Limits(tokens=1000), 1, 1, 0),
    (Limits(calls=5, tokens=3500), 1, 1, 2),
    (Limits(cost=0.0029), 1, 1, 0),
    (Limits(cost=0.0085), 1, 1, 2),
    (Limits(cost=0.0085), 1, 2, 1),
]


@pytest.mark.parametrize(("limits", "asked", "questions", "left"), ROUNDS)
def test_rounds_left_by_usage(limits, asked, questions, left):
    ledger = Ledger(limits)
    for _ in range(asked):
        ask(ledger, usage_of(900, 100), PRICES)
    assert ledger.rounds_left(questions) == left


def test_rounds_left_by_time():
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


KEPT = {
    # deadline, seconds since the start, whether the clock has started; seconds of questions
    "no deadline": (None, 10, True, None),
    "at the start": (1000, 0, True, 800),
    "after another method": (1000, 500, True, 400),
    "clock not started": (1000, 600, False, 800),
    "passed": (1000, 2000, True, 0),
}


# ---------------------------------------------------------------------- what is left


def test_what_is_left_is_less_by_what_was_spent():
    ledger = Ledger(Limits(calls=3, tokens=5000, cost=1.0, concurrency=4))
    ask(ledger, usage_of(900, 100), Prices(100, 1000))
    ledger.add_question_round(3.0, 9)
    ledger.add_question_round(1.0)
    left = ledger.left()
    assert (left.calls, left.tokens, left.seconds, left.concurrency) == (2, 4000, None, 4)
    assert left.cost == pytest.approx(1 - 0.19)
    # Nine questions, four at a time, take the time of three; and one more round of one.
    assert (left.question_seconds, left.question_waves) == (4.0, 4)


@pytest.mark.parametrize(("deadline", "since", "started", "seconds"), KEPT.values(), ids=KEPT)
def test_time_that_is_left_is_all_of_it_until_the_first_call(deadline, since, started, seconds):
    now = time.perf_counter()
    ledger = Ledger(Limits(deadline=deadline), now - since, waiting=not started)
    ledger.keep_time(last=False)
    assert ledger.left().seconds == (seconds and pytest.approx(seconds, abs=60))


# ---------------------------------------------------------------------- the clock


def test_clock_starts_with_the_first_call():
    ledger = Ledger(Limits(deadline=5), time.perf_counter() - 60, waiting=True)
    assert ledger.seconds_left == 0
    ledger.start_clock()
    assert ledger.seconds_left is not None
    assert ledger.seconds_left > 4
    started = ledger.started
    ledger.start_clock()
    assert ledger.started == started


def test_seconds_left_is_never_negative():
    assert Ledger().seconds_left is None
    assert Ledger(Limits(deadline=1), time.perf_counter() - 60).seconds_left == 0.0


@pytest.mark.parametrize(("deadline", "since", "started", "seconds"), KEPT.values(), ids=KEPT)
def test_questions_leave_a_fifth_of_the_time_to_fallbacks(deadline, since, started, seconds):
    now = time.perf_counter()
    ledger = Ledger(Limits(deadline=deadline), now - since, waiting=not started)
    with PassCall(ledger).keeping_time(last=False):
        ledger.start_clock()
        left = deadline and max(0, deadline - ledger.seconds)
        assert ledger.question_seconds_left == (seconds and pytest.approx(seconds, abs=60))
        assert (ledger.kept.seconds > 0) == bool(seconds)
    assert ledger.question_seconds_left == (left and pytest.approx(left, abs=60))
    assert not ledger.kept.seconds


def test_the_first_exception_is_kept_until_it_is_taken(caplog):
    caplog.set_level(logging.DEBUG, "secondpass.diagnostics")
    ledger, first = Ledger(), ValueError("first")
    ledger.record_exception(first, "the scorer")
    ledger.record_exception(ValueError("second"), "the ordering")
    assert [str(record.exc_info[1]) for record in caplog.records] == ["first", "second"]
    assert ledger.take_error() is first
    assert ledger.take_error() is None


def test_the_fastest_answer_of_a_service_is_what_a_question_needs():
    ledger, service, other = Ledger(Limits(deadline=100)), object(), object()
    ledger.add_answer(service, 70.0)
    ledger.add_answer(service, 50.0)
    ledger.add_answer(service, 60.0)
    ledger.started -= 45
    assert ledger.has_time_for(service)
    ledger.started -= 10
    assert not ledger.has_time_for(service)
    assert ledger.has_time_for(other)
    assert Ledger().has_time_for(service)


def test_a_method_within_one_that_began_late_is_late_too():
    ledger = Ledger(Limits(deadline=100))
    call = PassCall(ledger)
    with call.keeping_time(last=False):
        ledger.started -= 95  # half of what was kept, 10 seconds, is not left
    with call.keeping_time(last=True):
        assert (ledger.question_seconds_left, ledger.rounds_left()) == (0.0, None)
        assert ledger.left().seconds == 0
        assert ledger.seconds_left > 0  # a scorer may still use it
        with call.keeping_time(last=False):
            assert ledger.question_seconds_left == 0
    assert not ledger.kept.late

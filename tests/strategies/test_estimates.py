"""Waves of calls, limits that are exceeded, and trials of methods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable, Model, numbered, task_of
from secondpass.limits import Left, Limits
from secondpass.methods import to_method
from secondpass.runtime.dry_run import SimulatedLedger
from secondpass.strategies.base import Bounds
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.cost_plan import ExceededLimit, PlannedStage
from secondpass.strategies.estimates import (
    exceeded_limits,
    most_waves,
    planned_stage,
    trials,
    waves_of,
)
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 12))
def test_waves_within_bounds_are_a_bound(rounds, concurrency):
    actual = sum(-(-number // concurrency) for number in rounds)
    wide = Bounds((1, sum(rounds)), (1, len(rounds)))
    exact = Bounds.exactly(sum(rounds), len(rounds))
    low, high = waves_of(wide, rounds, concurrency)
    assert low <= actual <= high
    assert waves_of(exact, rounds, concurrency) == (actual, actual)
    assert waves_of(None, rounds, concurrency) == (actual, actual)


@pytest.mark.parametrize(
    ("bounds", "concurrency", "waves"),
    [
        (Bounds((6, 31), (2, 17)), 8, 18),
        (Bounds((6, 31), (2, 17)), 1, 31),
        (Bounds((1, 9), (1, 9)), 8, 9),
        (Bounds(), 8, 0),
    ],
)
def test_most_waves(bounds, concurrency, waves):
    assert most_waves(bounds, concurrency) == waves


NEEDS = PlannedStage("m", 5, (4, 6), (2, 3), 5, (100, 150), (10, 20), (0.5, 1.0), (2, 3))


@pytest.mark.parametrize(
    ("left", "exceeded"),
    [
        (Left(), ()),
        (Left(calls=6, tokens=170, cost=1.0, seconds=3), ()),
        (Left(calls=5), (ExceededLimit("calls", 5, (4, 6)),)),
        (Left(tokens=169), (ExceededLimit("tokens", 169, (110, 170)),)),
        (
            Left(cost=0.9, seconds=2.5),
            (ExceededLimit("cost", 0.9, (0.5, 1.0)), ExceededLimit("deadline", 2.5, (2, 3))),
        ),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, tuple) else "left",
)
def test_exceeded_limits(left, exceeded):
    assert exceeded_limits(NEEDS, left) == exceeded
    assert exceeded_limits(PlannedStage("m", 5, None, None), left) == ()


def test_each_stage_of_a_cascade_is_tried():
    stages = [{"method": to_method(ByTable())}, {"method": Graded(Model()), "depth": 5}]
    first, second = trials(Cascade(stages), task_of(numbered(range(9))), SimulatedLedger(Limits()))
    assert (len(first.task.texts), len(second.task.texts)) == (9, 5)
    assert (first.run.rounds, second.run.rounds) == ([], [1])
    stage = planned_stage(second, 8, 1.5)
    assert (stage.calls, stage.seconds, stage.candidates) == ((1, 1), (1.5, 1.5), 5)


def test_what_does_not_fit_is_a_problem():
    method = Listwise(Model(context_window=100))
    (trial,) = trials(method, task_of(numbered(range(9))), SimulatedLedger(Limits()))
    stage = planned_stage(trial, 8, None)
    assert "fit into the 100 tokens" in stage.problem
    assert (stage.left_out, stage.input_tokens) == (9, None)

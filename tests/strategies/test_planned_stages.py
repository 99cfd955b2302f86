"""Waves of calls, limits that are exceeded, and trials of methods."""

import pytest

from fakes import ByTable, Model, numbered, task_of
from secondpass.asking.planning import (
    SimulatedLedger,
    exceeded_limits,
    planned_stage,
    trials,
    waves,
)
from secondpass.effects import Left
from secondpass.limits import Limits
from secondpass.ranking.cost_plan import ExceededLimit, PlannedStage
from secondpass.ranking.methods import to_method
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise


@pytest.mark.parametrize(
    ("rounds", "concurrency", "number"),
    [([10, 1], 8, 3), ([10, 1], 10, 2), ([10, 1], 1, 11), ([16], 8, 2), ([], 8, 0)],
)
def test_waves(rounds, concurrency, number):
    assert waves(rounds, concurrency) == number


NEEDS = PlannedStage("m", 5, 6, 3, 5, 150, 20, 1.0, 3)


@pytest.mark.parametrize(
    ("left", "exceeded"),
    [
        (Left(), ()),
        (Left(calls=6, tokens=170, cost=1.0, seconds=3), ()),
        (Left(calls=5), (ExceededLimit("calls", 5, 6),)),
        (Left(tokens=169), (ExceededLimit("tokens", 169, 170),)),
        (
            Left(cost=0.9, seconds=2.5),
            (ExceededLimit("cost", 0.9, 1.0), ExceededLimit("deadline", 2.5, 3)),
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
    assert (stage.calls, stage.seconds, stage.candidates) == (1, 1.5, 5)


def test_what_does_not_fit_is_a_problem():
    method = Listwise(Model(context_window=100))
    (trial,) = trials(method, task_of(numbered(range(9))), SimulatedLedger(Limits()))
    stage = planned_stage(trial, 8, None)
    assert "fit into the 100 tokens" in stage.problem
    assert (stage.left_out, stage.calls, stage.input_tokens) == (9, 0, None)

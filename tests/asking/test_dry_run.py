"""A plan carried out without calling anything, and sums of what is expected."""

import pytest

from fakes import Model
from scripted_services import question
from secondpass.asking.dry_run import dry_ledger, dry_run
from secondpass.asking.expected_use import Expected, merged, total
from secondpass.effects import Ask
from secondpass.limits import Limits, Prices
from secondpass.ranking.ledger import PassCall

PRICES = Prices(100_000, 1_000_000)  # a question of 10 and 5 tokens costs 1 + 5


ROUNDS_LEFT = object()


def sent_into(*effects, **limits):
    """The dry run of a plan that yields these effects, and what was sent into it.

    ``ROUNDS_LEFT`` stands for a question to the handle of the plan.
    """
    received = []
    ledger = dry_ledger(Limits(**limits))
    call = PassCall(ledger)

    def plan():
        for effect in effects:
            received.append(call.rounds_left() if effect is ROUNDS_LEFT else (yield effect))

    return dry_run(plan(), ledger), received


def test_questions_are_counted_and_left_unanswered():
    asked = Ask(Model(prices=PRICES), [question(), question()])
    run, (answers,) = sent_into(asked)
    assert (run.uses, run.rounds) == ([Expected("model", 2, 6, 20, 10, 12.0)], 1)
    assert [(answer.value, answer.error.code) for answer in answers] == [(None, "dry_run")] * 2
    assert asked.service.prompts == []


@pytest.mark.parametrize(
    ("limits", "calls"),
    [({}, 3), ({"calls": 2}, 2), ({"tokens": 30}, 2), ({"cost": 11.9}, 1), ({"deadline": 1e-9}, 3)],
)
def test_limits_are_kept_to_and_deadlines_are_not(limits, calls):
    ask = Ask(Model(prices=PRICES), [question()])
    run, received = sent_into(ask, ask, ask, ROUNDS_LEFT, **limits)
    assert (run.uses[0].calls, run.rounds) == (calls, calls)
    assert [answer.error.code for (answer,) in received[:3]] == ["dry_run"] * calls + ["budget"] * (
        3 - calls
    )
    assert received[3] in ({None} if not limits or "deadline" in limits else {0})


def test_a_dry_run_repairs_nothing():
    call = PassCall(dry_ledger(Limits()))
    assert (call.rounds_left(repairs=True), call.rounds_left()) == (0, None)


SUMS = [
    # uses; calls, pairs, input tokens, output tokens, cost
    ([], (0, 0, None, None, None)),
    ([Expected("a", 0, 5)], (0, 5, None, None, None)),
    ([Expected("a", 1, 5, 10, 2, 0.5)], (1, 5, 10, 2, 0.5)),
    ([Expected("a", 1, 5, 10, 2, 0.5), Expected("b", 0, 7)], (1, 12, 10, 2, 0.5)),
    ([Expected("a", 1, 5, 10, 2, 0.5), Expected("b", 1, 7, 1, 1)], (2, 12, 11, 3, None)),
]


@pytest.mark.parametrize(("uses", "sums"), SUMS)
def test_total_has_a_cost_only_if_all_are_known(uses, sums):
    assert total(uses) == Expected("total", *sums)


def test_uses_of_one_model_become_one():
    first, other = Expected("a", 1, 5, 10, 2, 0.5), Expected("b", 0, 7)
    assert merged([first, other, first]) == [Expected("a", 2, 10, 20, 4, 1.0), other]
    assert first.times(3) == Expected("a", 3, 15, 30, 6, 1.5)
    assert other.times(3) == Expected("b", 0, 21)

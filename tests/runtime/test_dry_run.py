"""A plan carried out without calling anything, and sums of what is expected."""

import pytest

from fakes import InOrder, Model
from scripted_services import question
from secondpass.effects import Ask, RoundsLeft, Score
from secondpass.limits import Limits, Prices
from secondpass.runtime.dry_run import Expected, dry_run, merged, total
from secondpass.runtime.ledger import Ledger

PRICES = Prices(100_000, 1_000_000)  # a question of 10 and 5 tokens costs 1 + 5


def sent_into(*effects, **limits):
    """What is expected of a plan that yields these effects, and what was sent into it."""
    received = []

    def plan():
        for effect in effects:
            received.append((yield effect))

    return dry_run(plan(), Ledger(Limits(**limits))), received


def test_questions_are_counted_and_left_unanswered():
    asked = Ask(Model(prices=PRICES), [question(), question()])
    expected, (answers,) = sent_into(asked)
    assert expected == [Expected("model", 2, 6, 20, 10, 12.0)]
    assert [(answer.value, answer.error.code) for answer in answers] == [(None, "dry_run")] * 2
    assert asked.service.prompts == []


def test_scorers_are_not_called():
    expected, (raw,) = sent_into(Score(InOrder(()), "query", ["a", "b"]))
    assert expected == [Expected("in-order", 0, 2)]
    assert (raw.values, raw.failures) == ([0.0, 0.0], [])


@pytest.mark.parametrize(
    ("limits", "calls"),
    [({}, 3), ({"calls": 2}, 2), ({"tokens": 30}, 2), ({"cost": 11.9}, 1), ({"deadline": 1e-9}, 3)],
)
def test_limits_are_kept_to_and_deadlines_are_not(limits, calls):
    ask = Ask(Model(prices=PRICES), [question()])
    expected, received = sent_into(ask, ask, ask, RoundsLeft(), **limits)
    assert expected[0].calls == calls
    assert [answer.error.code for (answer,) in received[:3]] == ["dry_run"] * calls + ["budget"] * (
        3 - calls
    )
    assert received[3] in ({None} if not limits or "deadline" in limits else {0})


def test_unknown_effects_are_passed_over():
    assert sent_into("nonsense") == ([], [None])


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

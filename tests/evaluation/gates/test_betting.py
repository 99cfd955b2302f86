"""Evidence of queries in turn, whose false alarms are bounded."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.evaluation.gates.betting import evidence, fewest_queries

REGRETS = st.lists(st.floats(-1, 1), min_size=1, max_size=40).map(np.array)


@given(REGRETS, st.floats(0.001, 0.5))
def test_evidence_is_the_capital_of_four_bets(regrets, bound):
    capitals = [
        math.prod(1 + share / (1 - bound) * (bound - regret) for regret in regrets)
        for share in (0.25, 0.5, 0.75, 1.0)
    ]
    assert evidence(regrets, bound) == pytest.approx(sum(capitals) / 4, rel=1e-6, abs=1e-9)


@given(REGRETS, st.floats(0.001, 0.5), st.randoms())
def test_order_has_no_effect(regrets, bound, random):
    shuffled = [*regrets]
    random.shuffle(shuffled)
    assert evidence(np.array(shuffled), bound) == pytest.approx(evidence(regrets, bound))


@pytest.mark.parametrize("bound", [0.01, 0.05])
@pytest.mark.parametrize("loss", [0.1, 0.5, 1.0])
def test_a_false_hypothesis_is_seldom_accepted(loss, bound):
    """The mean regret is the bound itself: the chance of 20 times the stake is 5 % at most."""
    random = np.random.default_rng(0)
    draws = random.random((1_000, 400)) < bound / loss
    accepted = sum(evidence(loss * row, bound) >= 20 for row in draws)
    assert accepted <= 0.05 * 1_000 + 3 * math.sqrt(0.05 * 0.95 * 1_000)


@pytest.mark.parametrize(("bound", "confidence"), [(0.01, 0.95), (0.05, 0.9), (0.3, 0.99)])
def test_fewest_queries(bound, confidence):
    count = fewest_queries(bound, confidence, 2)
    needed = 2 / (1 - confidence)
    assert evidence(np.zeros(count), bound) >= needed * (1 - 1e-9)
    assert evidence(np.zeros(count - 1), bound) < needed

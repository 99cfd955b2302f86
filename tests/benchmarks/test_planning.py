"""The simulations of batches: rules that are known to be equal, and exact speeds."""

import math

import pytest
from benchmarks.speed import planning


@pytest.mark.parametrize("name", planning.RULES)
def test_a_rule_runs_each_pair_once(name):
    lists = [[30, 500, 7], [90], [90, 90, 512, 3, 64, 700], [5] * 40]
    batches = list(planning.RULES[name](lists))
    pairs = sorted(length for batch in batches for length in batch)
    assert pairs == sorted(length for lengths in lists for length in lengths)
    for batch in batches:
        assert max(batch) * len(batch) <= planning.BUDGET or len(batch) == 1


@pytest.mark.parametrize("part", [math.inf, 0.4])
def test_the_share_before_a_deadline_repeats_and_is_at_most_the_rate(part):
    share = planning.before_deadline(part, 0.1, queries=4)
    assert 0.7 < share <= 1.05
    assert share == planning.before_deadline(part, 0.1, queries=4)

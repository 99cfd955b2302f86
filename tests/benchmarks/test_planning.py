"""The simulations of batches: rules that are known to be equal, and exact speeds."""

import math
import random

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


def test_a_call_that_runs_alone_has_its_own_batches():
    lengths = planning.drawn(50, random.Random(1))
    own = planning.batches_of(lengths)
    for rule in (planning.alone, planning.rounds, planning.one_list):
        assert [*rule([lengths])] == own


def test_rounds_pad_nearly_as_little_as_one_list():
    own = planning.shared("each call its own batches", 10)
    joined = planning.shared("**rounds of all waiting calls, 32 at a time**", 10)
    assert own[0] < 0.9 < 0.97 < joined[0] <= 1
    assert joined[1] < own[1] / 2


def test_lengths_are_those_of_the_workload():
    draw = random.Random(3)
    lengths = [length for _ in range(50) for length in planning.drawn(100, draw)]
    assert sum(lengths) / len(lengths) == pytest.approx(planning.SHAPES["A"].tokens, rel=0.03)


@pytest.mark.parametrize("part", [math.inf, 0.4])
def test_the_share_before_a_deadline_repeats_and_is_at_most_the_rate(part):
    share = planning.before_deadline(part, 0.1, queries=4)
    assert 0.7 < share <= 1.05
    assert share == planning.before_deadline(part, 0.1, queries=4)

"""Repetitions of a query, counted without keeping it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.monitoring.sketches import BINS, Repeats, design_effect
from secondpass.ranking.candidates import query_key
from secondpass.ranking.observers import query_hash


def repeats_of(*queries, times=1):
    made = Repeats()
    for query in queries * times:
        made.add(query_hash(str(query)))
    return made


@pytest.mark.parametrize("text", ["Red  panda", " red panda\n", "RED\tPANDA", "\udc80 red panda"])
def test_case_and_white_space_make_no_other_query(text):
    same = "\udc80" not in text
    assert (query_key(text) == query_key("red panda")) is same
    assert (query_hash(text) == query_hash("red panda")) is same


@given(st.lists(st.integers(0, 99)), st.lists(st.integers(0, 99)))
def test_parts_add_up(first, second):
    merged = repeats_of(*first)
    merged.merge(repeats_of(*second))
    assert merged == repeats_of(*first, *second)
    assert Repeats.from_pairs(merged.to_pairs()) == merged


@pytest.mark.parametrize("pairs", [[[BINS, 1]], [[-1, 1]], [[0, 0]], [[0, 1.0]], [[1, 1], [1, 2]]])
def test_what_is_no_pair_of_bin_and_count(pairs):
    with pytest.raises(ValueError, match="bin"):
        Repeats.from_pairs(pairs)


@given(st.integers(1, 9))
def test_rankings_count_as_their_queries(times):
    first, second = range(300), range(300, 500)
    effect = design_effect(
        repeats_of(*first, times=times), 300 * times, repeats_of(*second, times=times), 200 * times
    )
    assert effect == pytest.approx(times, rel=0.1)


def test_queries_that_both_samples_repeat_alike_cost_nothing():
    """As those of a health check do."""
    first, second = [*range(300)] + [-1] * 300, [*range(300, 500)] + [-1] * 200
    effect = design_effect(repeats_of(*first), 600, repeats_of(*second), 400)
    assert effect == 1.0
    alone = design_effect(repeats_of(*first), 600, repeats_of(*range(300, 500)), 200)
    assert alone > 30

"""Scores and relevances as trec_eval reads them."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.errors import InputError
from secondpass.formats.reading import (
    RELEVANCE,
    single_precision,
    strictly_falling,
    trec_order,
    whole_relevance,
)

SCORES = st.dictionaries(st.text(max_size=3), st.floats(-3e38, 3e38), max_size=12)


@pytest.mark.parametrize("value", [*RELEVANCE, 0, np.int64(2)])
def test_relevance(value):
    assert whole_relevance(value) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "must be a whole number"),
        (1.0, "must be a whole number"),
        ("1", "must be a whole number"),
        (None, "must be a whole number"),
        (RELEVANCE[0] - 1, f"must be {RELEVANCE[0]} to {RELEVANCE[1]}"),
        (RELEVANCE[1] + 1, f"must be {RELEVANCE[0]} to {RELEVANCE[1]}"),
    ],
)
def test_wrong_relevance(value, message):
    with pytest.raises(ValueError, match=message):
        whole_relevance(value)


@given(SCORES)
def test_scores_fall_strictly(scores):
    falling = strictly_falling(scores)
    rounded = [single_precision(score, "") for score in falling.values()]
    assert falling.keys() == scores.keys()
    assert all(one > other for one, other in pairwise(rounded))
    assert [*strictly_falling(falling).items()] == [*falling.items()]
    given_order = [single_precision(scores[document], "") for document in falling]
    assert given_order == sorted(given_order, reverse=True)


def test_ties_become_the_next_lower_number():
    falling = strictly_falling({"a": 0.0, "b": 0.0, "c": 1.0, "d": 1.0})
    assert falling == {"c": 1.0, "d": 1 - 2**-24, "a": 0.0, "b": -(2**-149)}


def test_ties_are_by_descending_id_in_trec_eval():
    scores = {"a": 1.0, "b": 1.0 + 1e-9, "c": 2.0, "d": 1.0}
    assert [*trec_order(scores)] == ["c", "d", "b", "a"]


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("1", "is not a number"),
        (None, "is not a number"),
        (1e39, "is beyond single precision"),
        (math.inf, "is not finite"),
        (math.nan, "is not finite"),
    ],
)
def test_wrong_scores(score, message):
    with pytest.raises(InputError, match=f"document 'd7': its score {message}"):
        trec_order({"d7": score})

"""Values that were read come back from JSON, for the same documents only."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass.apis.wire import ResponseScores
from secondpass.prompts.replies.base import BatchScores, Order, dump, load

places = st.lists(st.integers(0, 5), unique=True).map(tuple)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
scores = st.lists(numbers, min_size=6, max_size=6).map(tuple)
values = st.one_of(
    st.builds(BatchScores, scores, places, st.integers(0, 9), declined=places),
    st.builds(Order, places, st.integers(0, 9), st.integers(0, 9), refused=places),
)


@examples(20)
@given(values)
def test_values_come_back(value):
    data = json.loads(json.dumps(dump(value)))
    again = load(data, 6)
    assert again == value
    assert [type(item) for item in vars_of(again)] == [type(item) for item in vars_of(value)]


def vars_of(value):
    return value.values if isinstance(value, BatchScores) else value.places


def test_values_of_subclasses_come_back():
    value = ResponseScores((7.0, None), (1,), outside=(7.0,))
    assert load(json.loads(json.dumps(dump(value))), 2, ResponseScores) == value
    with pytest.raises(ValueError, match="no answer"):
        load(dump(value), 2)


@pytest.mark.parametrize("value", [None, 1.0, "text", [1], object()])
def test_other_values_cannot_be_stored(value):
    with pytest.raises(TypeError, match="cannot be stored"):
        dump(value)


ORDER = {"places": [1, 0], "doubled": 0, "unknown": 0, "cut": False, "refused": []}
SCORES = {"values": [1.0, 2.0], "refused": [], "unknown": 0, "cut": False, "declined": []}
WRONG = {
    "no mapping": [1, 2],
    "no field": {},
    "a field less": {"places": [1, 0]},
    "a place too high": {**ORDER, "places": [2, 0]},
    "a place twice": {**ORDER, "places": [1, 1]},
    "a place of another type": {**ORDER, "places": [True, 0]},
    "a refused place too high": {**ORDER, "refused": [2]},
    "no places": {**ORDER, "places": None},
    "too few scores": {**SCORES, "values": [1.0]},
    "not a number": {**SCORES, "values": [1.0, float("nan")]},
    "infinite": {**SCORES, "values": [1.0, float("inf")]},
    "a whole number": {**SCORES, "values": [1.0, 2]},
    "a count that is none": {**SCORES, "unknown": "x"},
    "a count below 0": {**ORDER, "doubled": -1},
    "scores that broke off": {**SCORES, "cut": True},
    "an order that broke off": {**ORDER, "cut": "yes"},
    "a declined place too high": {**SCORES, "declined": [2]},
    "scores outside of other types": {**SCORES, "outside": ["7"]},
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_values_of_other_questions_are_rejected(data):
    kinds = [ResponseScores] if "outside" in data else []
    with pytest.raises((AttributeError, TypeError, ValueError)):
        load(data, 2, *kinds)
    load(ORDER, 2)
    load(SCORES, 2)

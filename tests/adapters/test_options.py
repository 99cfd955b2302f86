"""Checks of the arguments of a call: what is accepted, and the message otherwise."""

import numpy as np
import pytest

from secondpass import ConfigurationError, InputError, Reranker
from secondpass.adapters.options import check_order, checked_list, finite_number, whole_number

NO_WHOLE_NUMBERS = {
    "zero": 0,
    "negative": -1,
    "huge": -(10**5000),
    "boolean": True,
    "float": 1.0,
    "string": "5",
    "array": np.zeros(2, int),
}
NO_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "string": "0.5", "boolean": False}


@pytest.mark.parametrize("value", [1, 10**30, np.int64(3), np.uint8(1)])
def test_whole_numbers(value):
    number = whole_number("top_k", value)
    assert number == int(value)
    assert type(number) is int


@pytest.mark.parametrize("value", NO_WHOLE_NUMBERS.values(), ids=NO_WHOLE_NUMBERS)
def test_no_whole_numbers(value):
    with pytest.raises(InputError, match=r"^top_n: give a whole number of 1 or more, not "):
        whole_number("top_n", value)


@pytest.mark.parametrize("value", [0, -1.5, np.float32(0.5)])
def test_finite_numbers(value):
    assert type(finite_number("floor", value)) is float


@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_no_finite_numbers(value):
    with pytest.raises(InputError, match=r"^floor: give a finite number, not "):
        finite_number("floor", value)


def test_none_stays_none():
    assert whole_number("top_k", None) is None
    assert finite_number("floor", None) is None


def test_orders():
    tiers = {"type": "tiers", "field": "level", "tiers": ["easy"]}
    reranker = Reranker("lexical", orders={"learn": tiers})
    for order in (None, "none", "learn", "lost_in_the_middle", tiers):
        check_order(order, reranker)
    for order in ("lern", {"type": "tires"}, 7):
        with pytest.raises(ConfigurationError, match=r"^order"):
            check_order(order, reranker)


@pytest.mark.parametrize("values", [None, 7, "text", b"x", {"a": 1}, (1, 2)])
def test_no_list(values):
    with pytest.raises(InputError, match=r"^pairs: give a list of tuples, not (nothing|an? )"):
        checked_list(values, tuple, "pairs", "tuples")


def test_no_item():
    assert checked_list(iter([1, 2]), int, "numbers", "ints") == [1, 2]
    with pytest.raises(InputError, match=r"^numbers\[1\]: give an int, not a str; count it$"):
        checked_list([1, "secret"], int, "numbers", "ints", {str: "; count it"})

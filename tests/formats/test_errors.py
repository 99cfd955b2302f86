"""Errors of files, measures and indexes: messages, and checks of numbers."""

import pickle

import pytest

from secondpass import InputError
from secondpass.formats.errors import (
    FormatError,
    IndexFaultError,
    MeasureError,
    StaleIndexError,
    check_numbers,
    first_few,
)

MESSAGES = [
    (FormatError("a.jsonl", 3, "is not JSON"), "a.jsonl:3: is not JSON"),
    (FormatError("a.jsonl", None, "is empty"), "a.jsonl: is empty"),
    (MeasureError("nDCG@0", "is unknown"), "measure 'nDCG@0': is unknown"),
    (IndexFaultError("idx", "is no index"), "idx: is no index"),
    (IndexFaultError("idx", "is old", "build x"), "idx: is old. To rebuild it, run: build x"),
    (StaleIndexError("idx", ["a", "b"], "build"), "idx: is stale: a, b. To rebuild it, run: build"),
]


@pytest.mark.parametrize(("error", "message"), MESSAGES, ids=[row[1] for row in MESSAGES])
def test_messages_survive_pickling(error, message):
    assert str(error) == message
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), message, vars(error))


@pytest.mark.parametrize("number", [0, True, 1.0, "1", None])
def test_wrong_numbers_are_named(number):
    with pytest.raises(InputError, match=r"^depth: must be a whole number of 1 or more, not "):
        check_numbers(k=(3, 1), depth=(number, 1))


def test_the_first_few_names():
    assert first_few([]) == ""
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few({"a": "x", "b": "x", "c": "x", "d": "x", "e": "x"}) == "a, b, c, and 2 more"

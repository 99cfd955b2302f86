"""Errors of measures and indexes."""

import pickle

import pytest

from secondpass_evaluation.errors import IndexFaultError, MeasureError, StaleIndexError

MESSAGES = {
    "measure 'nDCG@0': is unknown": MeasureError("nDCG@0", "is unknown"),
    "idx: is no index": IndexFaultError("idx", "is no index"),
    "idx: is old. To rebuild it, run: build x": IndexFaultError("idx", "is old", "build x"),
    "idx: is stale: a, b, c. To rebuild it, run: x": StaleIndexError("idx", [*"abc"], "x"),
    "idx: is stale: a, b, c, and 2 more. To rebuild it, run: x": StaleIndexError(
        "idx", [*"abcde"], "x"
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_survive_pickling(message):
    error = MESSAGES[message]
    assert str(error) == message
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), message, vars(error))

"""Batches are validated."""

import pytest

from secondpass.asking.partial_scores import CollectedScores
from secondpass.errors import DeadlineError, MethodError

ROWS = [(0, 0, 0.5), (0, 2, 0.25)]


class Index:
    def __index__(self):
        return 1


MALFORMED = "score_batches did not yield (index of request, index of document, score)"
UNKNOWN = "score_batches scored a request or document that does not exist"
TWICE = "score_batches scored a document twice"
NO_LIST = "score_batches yielded a float, not a list"
KEPT = {0: 0.5, 2: 0.25}
ADDED = {
    # batches of 4 documents; the scores, and the code and message of the error
    "two batches": ([ROWS, [(0, 1, 1.0)]], {**KEPT, 1: 1.0}, None, None),
    "any iterables": ([iter([[0, Index(), "x"]])], {1: "x"}, None, None),
    "empty": ([[], ()], {}, None, None),
    "unknown document": ([ROWS, [(0, 1, 1.0), (0, 4, 1.0)]], KEPT, "score_index", UNKNOWN),
    "negative": ([ROWS, [(0, -1, 1.0)]], KEPT, "score_index", UNKNOWN),
    "unknown request": ([ROWS, [(1, 1, 1.0)]], KEPT, "score_index", UNKNOWN),
    "float": ([[(0, 1.0, 1.0)]], {}, "score_index", MALFORMED),
    "pairs": ([[(0, 1.0)]], {}, "score_index", MALFORMED),
    "numbers": ([[1.0]], {}, "score_index", MALFORMED),
    "not a list": ([ROWS, 1.0], KEPT, "scores_no_list", NO_LIST),
    "twice in a batch": ([ROWS, [(0, 1, 1.0), (0, 1, 1.0)]], KEPT, "score_repeated", TWICE),
    "twice": ([ROWS, [(0, 1, 1.0), (0, 2, 0.25)]], {0: 0.5}, "score_repeated", TWICE),
}


@pytest.mark.parametrize(("batches", "scores", "code", "message"), ADDED.values(), ids=ADDED)
def test_batches_are_validated(batches, scores, code, message):
    collected = CollectedScores(4)
    *good, last = batches
    for batch in good:
        assert collected.add(batch)
    if code is None:
        assert collected.add(last)
    else:
        with pytest.raises(MethodError) as raised:
            collected.add(last)
        assert raised.value.code == code
        assert str(raised.value) == message
    assert collected.take().scores == scores


def test_endless_batch_is_refused():
    def rows():
        while True:
            yield (0, 1, 1.0)

    with pytest.raises(MethodError, match="twice"):
        CollectedScores(4).add(rows())


def test_nothing_is_added_after_taking():
    collected = CollectedScores(4)
    collected.add(ROWS)
    taken = collected.take()
    assert not collected.add([(0, 1, 1.0)])
    with pytest.raises(MethodError):
        collected.add([(0, 0, 1.0)])
    assert taken.scores == {0: 0.5, 2: 0.25}
    assert (type(taken.error), str(taken.error)) == (
        DeadlineError,
        "the deadline passed before these were scored",
    )

"""Scores of responses: their kind, rounding, storage, and documents that were not sent."""

import pytest

from secondpass.apis.wire import (
    ResponseScores,
    SpanScores,
    clipped,
    dump,
    equal,
    kind_of_scores,
    load,
)
from secondpass.errors import MethodError


def batch(*values, refused=()):
    outside = tuple(value for value in values if not 0 <= value <= 1)
    return ResponseScores(values, refused, outside=outside)


KINDS = {
    # batches, maybe_logits; the kind, or None if they are refused
    "none": ([], False, "probability"),
    "within": ([batch(0.1, 0.9)], True, "probability"),
    "logits": ([batch(-3, 0.5), batch(2.5)], True, "logit"),
    "at the limit": ([batch(-50, 50)], True, "logit"),
    "beyond the limit": ([batch(50.5, 1)], True, None),
    "far below": ([batch(-50.5, 1)], True, None),
    "not offered": ([batch(-3, 0.5)], False, None),
    "one batch within": ([batch(-3, 0.5), batch(0.5)], True, None),
    "one refused": ([batch(-3, 0.5, refused=(1,))], True, None),
}


@pytest.mark.parametrize("name", KINDS)
def test_kind(name):
    batches, maybe_logits, kind = KINDS[name]
    if kind is not None:
        assert kind_of_scores(batches, "probability", maybe_logits=maybe_logits) == kind
        return
    with pytest.raises(MethodError, match=r"^a score of -?[\d.]+ is outside 0 to 1") as caught:
        kind_of_scores(batches, "probability", maybe_logits=maybe_logits)
    assert caught.value.code == "score_out_of_range"


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("probability", (1.00005, -0.00005, None, 0.5), (1.0, 0.0, None, 0.5)),
        ("similarity", (-1.00005, 0.5), (-1.0, 0.5)),
        ("logit", (-30.0, 30.0), (-30.0, 30.0)),
    ],
)
def test_clipped(kind, values, expected):
    assert clipped(ResponseScores(values, (2,), 1), kind) == ResponseScores(expected, (2,), 1)


STORED = {"values": [0.5], "refused": [], "unknown": 0, "cut": False, "declined": [],
          "outside": [], "spans": [[0, 1]], "wrong_spans": []}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"spans": [[0, 4]]}, {"spans": [[1, 1]]}, {"spans": [[-1, 1]]}, {"spans": [[0.0, 1]]},
        {"spans": []}, {"spans": [None, None]}, {"spans": ["01"]}, {"spans": [[0, 1, 2]]},
        {"wrong_spans": [1]}, {"values": [None]}, {"spans": 5}, {"spans": None},
    ],
    ids=repr,
)  # fmt: skip
def test_stored_spans_that_fit_no_text(changed):
    assert load(STORED, ["abc"], with_spans=True).spans == ((0, 1),)
    with pytest.raises((ArithmeticError, AttributeError, TypeError, ValueError)):
        load({**STORED, **changed}, ["abc"], with_spans=True)


@pytest.mark.parametrize("with_spans", [False, True])
def test_equal_scores(with_spans):
    scores = equal(2, 0.5, with_spans=with_spans)
    assert (scores.values, type(scores)) == (
        (0.5, 0.5),
        SpanScores if with_spans else ResponseScores,
    )
    assert scores.is_about(2)
    assert not scores.is_about(3)


def test_scores_without_spans_are_not_stored_where_spans_are_wanted():
    assert dump(ResponseScores((0.5,), ()), with_spans=True) is None
    stored = dump(ResponseScores((0.5, None), (1,)), with_spans=False)
    assert load(stored, ["a", "b"], with_spans=False) == ResponseScores((0.5, None), (1,))

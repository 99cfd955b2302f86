"""Readers of scores and ranks."""

import pytest

from reply_cases import BASE_1, CUT_REPLIES, FROM_1, NONE, OPAQUE, RANGE, SCORES, check, scores_of
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.numbers import Keyed, Pairs, Ranks, Scores, read_scores
from secondpass.prompts.replies.permutation import read_order
from secondpass.questions import Completion


@pytest.mark.parametrize(("reply", "expected"), SCORES.values(), ids=SCORES)
def test_scores(reply, expected):
    check(lambda: scores_of(reply), expected)


@pytest.mark.parametrize(("reply", "expected", "_order"), CUT_REPLIES)
def test_cut_replies(reply, expected, _order):
    check(lambda: scores_of(reply, cut=True), expected)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"1": 3, "2": 9, "3": 5}', (3, 9, 5)),
        ('{"0": 3, "1": 9, "2": 5}', BASE_1),
        ('[{"index": 1, "score": 3}, {"index": 3, "score": 5}]', (3, None, 5)),
        ('[{"index": 0, "score": 3}, {"index": 1, "score": 5}]', BASE_1),
        ('{"1": 3, "01": 9}', RANGE),
        ('{"0.0": 3, "1.0": 9}', BASE_1),
        ('{"doc 1": 3, "doc 3": 5}', (3, None, 5)),
        ("[3, 9, 5]", NONE),
    ],
)
def test_scores_of_indices(reply, expected):
    check(lambda: scores_of(reply, FROM_1), expected)


def test_row_with_two_indices():
    reply = '[{"id": 1, "index": 3, "score": 9}, {"id": 2, "index": 2, "score": 3}]'
    assert scores_of(reply, FROM_1) == (None, 3, None)


def test_details():
    grades = read_scores(Completion('{"k4t": 3, "b2c": "high", "q": 1, "p": 2}'), OPAQUE, 0, 10)
    assert (grades.values, grades.refused, grades.unknown) == ((3.0, None, None), (1,), 2)
    assert not grades.cut
    assert read_scores(Completion('{"k4t": 3, "b2', cut=True), OPAQUE, 0, 10).cut
    order = read_order(Completion('["b2c", "q", "b2c", "k4t", "b2c"]'), OPAQUE)
    assert (order.places, order.doubled, order.unknown, order.cut) == ((1, 0), 2, 1, False)
    assert read_order(Completion('["b2c", "k4', cut=True), OPAQUE).cut


RANKS = {
    "from 1": ('{"k4t": 2, "b2c": 1, "z9x": 3}', (1, 0, 2)),
    "from 0": ('{"k4t": 1, "b2c": 0, "z9x": 2}', (1, 0, 2)),
    "not in the order shown": ('{"z9x": 2, "b2c": 3, "k4t": 1}', (0, 2, 1)),
    "ties": ('{"z9x": 1, "k4t": 2, "b2c": 1}', (1, 2, 0)),
    "one missing": ('{"k4t": 2, "b2c": 1}', (1, 0)),
    "one alone": ('{"k4t": 2}', (0,)),
    "rows": ('[{"id": "k4t", "rank": 2}, {"id": "b2c", "rank": 1}]', (1, 0)),
    "no whole number": ('{"k4t": 1.5, "b2c": 1, "z9x": 2}', (1, 2)),
    "the last rank": ('{"k4t": 3, "b2c": 1}', (1, 0)),
    "beyond the last": ('{"k4t": 4, "b2c": 1}', "it has a rank outside the range from 0 to 3"),
    "below 0": ('{"k4t": -1, "b2c": 1}', "it has a rank outside the range from 0 to 3"),
    "two alike": ('{"k4t": 1, "b2c": 1}', "it gives all documents the same rank"),
    "all alike": ('{"k4t": 2, "b2c": 2, "z9x": 2}', "it gives all documents the same rank"),
    "scores": ('[{"id": "k4t", "score": 2}, {"id": "b2c", "score": 1}]', NONE),
}


@pytest.mark.parametrize("make", [Keyed, Pairs])
@pytest.mark.parametrize(("reply", "expected"), RANKS.values(), ids=RANKS)
def test_ranks(reply, expected, make):
    reply_format = make(Ranks())
    if isinstance(expected, str):
        with pytest.raises(ReplyError) as caught:
            reply_format.read(Completion(reply), OPAQUE)
        assert str(caught.value) == expected
    else:
        assert reply_format.read(Completion(reply), OPAQUE).places == expected


@pytest.mark.parametrize("make", [Keyed, Pairs])
def test_formats_keep_to_the_scale(make):
    reply = Completion('{"k4t": 3, "b2c": 2.5, "z9x": 5}')
    assert make(Scores(2, 5)).read(reply, OPAQUE).values == (3, 2.5, 5)
    assert make(Scores(2, 5, whole=True)).read(reply, OPAQUE).values == (3, None, 5)
    for low, high in ((3, 5), (2, 4)):
        with pytest.raises(ReplyError, match=f"outside the range from {low} to {high}"):
            make(Scores(low, high)).read(reply, OPAQUE)


def test_broken_row_of_another_base():
    labels = Labels(["0", "1", "2"], 0)
    for broken in ('{"id" -1, "score": 4}', '{"id" 3, "score": 4}'):
        with pytest.raises(ReplyError, match="another answer"):
            read_scores(Completion(f'{broken}\n{{"id": 0, "score": 1}}'), labels, 0, 10)

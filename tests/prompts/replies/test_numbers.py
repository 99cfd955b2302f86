"""Readers of scores and ranks."""

import pytest

from reply_cases import BASE_1, CUT_REPLIES, FROM_1, NONE, OPAQUE, RANGE, SCORES, check, scores_of
from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.replies.numbers import read_scores
from secondpass.prompts.replies.permutation import read_order


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


@pytest.mark.parametrize("reply", ['{"scores": {"k4t": 3, "b2c": 1}}', '{"k4t": {"score": 3}}'])
def test_scores_are_no_ranks(reply):
    with pytest.raises(ReplyError):
        read_scores(Completion(reply), OPAQUE, 0, 3, word="rank", whole=True)


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


def test_broken_row_of_another_base():
    labels = Labels(["0", "1", "2"], 0)
    for broken in ('{"id" -1, "score": 4}', '{"id" 3, "score": 4}'):
        with pytest.raises(ReplyError, match="another answer"):
            read_scores(Completion(f'{broken}\n{{"id": 0, "score": 1}}'), labels, 0, 10)

"""Groups of candidates, and what a reply says of their order."""

import pytest

from fakes import Model, in_answer, numbered, play, ranked, task_of
from secondpass.errors import ReplyError
from secondpass.prompts.replies.base import Order
from secondpass.questions import Answer
from secondpass.strategies.listwise import Listwise
from secondpass.strategies.orders import Groups, OrderedGroup


@pytest.fixture
def groups():
    return Groups(Listwise(Model(), window=None), task_of(numbered(range(6))))


def issues(groups):
    return {issue.code: issue.positions for issue in groups.issues.issues()}


READ = [
    # the order, its group, the indices, what is reported
    (Order((2, 0, 1), 0, 0), OrderedGroup([5, 1, 3], []), {}),
    (Order((1,), 0, 0), OrderedGroup([3], [1, 5]), {"not_in_reply": (1, 5)}),
    (Order((1,), 0, 0, refused=(2,)), OrderedGroup([3], [1, 5]),
     {"rank_refused": (5,), "not_in_reply": (1,)}),
    (Order((2, 0, 1), 1, 0), OrderedGroup([5, 1, 3], []), {"doubled_label": ()}),
    (Order((2, 0, 1), 0, 1), OrderedGroup([5, 1, 3], []), {"unknown_label": ()}),
]  # fmt: skip


@pytest.mark.parametrize(("order", "group", "reported"), READ, ids=[str(row[2]) for row in READ])
def test_a_group_is_read(groups, order, group, reported):
    assert groups.read(Answer(order), [1, 3, 5]) == group
    assert issues(groups) == reported


def test_a_reply_that_broke_off(groups):
    groups.read(Answer(Order((0,), 0, 0, cut=True)), [1, 3])
    (issue,) = groups.issues.issues()
    assert "broke off" in issue.message


def test_a_group_that_was_not_answered(groups):
    assert groups.read(Answer(error=ReplyError("it is empty")), [1, 3, 5]) is None
    assert list(issues(groups).values()) == [(1, 3, 5)]


def test_groups_are_asked_about_side_by_side(groups):
    _, asks = play(wrapped(groups, [0, 1], [4, 2]), in_answer(ranked))
    ((first, second),) = [ask.questions for ask in asks]
    assert (first.documents, second.documents) == (2, 2)
    assert second.assumed == Order((0, 1), 0, 0)


def wrapped(groups, *indices):
    answers = yield from groups.ask(*indices)
    assert [groups.read(*pair).ordered for pair in zip(answers, indices, strict=True)] == [
        [1, 0],
        [4, 2],
    ]
    return groups.judgement(6, [])

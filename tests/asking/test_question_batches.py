"""Batches and issues that the strategies share."""

import pytest

from secondpass.asking.batches import merge_batches, split_batches
from secondpass.errors import LLMError, MethodError, ReplyError
from secondpass.prompts.replies.base import BatchScores
from secondpass.questions import Answer
from secondpass.ranking.issues import IssueCollector, error_message


def test_one_batch_on_another_scale_refuses_all():
    refused = ReplyError("95 lies outside 0 to 10", "score_out_of_range")
    with pytest.raises(ReplyError, match="95"):
        merged(Answer(BatchScores((9.0, 8.0), ())), Answer(error=refused))


def merged(*answers, batches=(range(2), range(2, 4)), count=4):
    by_batch = dict(zip(batches, answers, strict=True))
    return merge_batches(count, by_batch, word="grade", issues=IssueCollector("graded"))


@pytest.mark.parametrize(
    ("count", "size", "sizes"),
    [(5, None, [5]), (5, 5, [5]), (6, 5, [3, 3]), (7, 3, [2, 2, 3]), (3, 1, [1, 1, 1]), (0, 3, [])],
)
def test_batches_are_of_nearly_equal_size(count, size, sizes):
    batches = list(split_batches(count, size))
    assert [len(batch) for batch in batches] == sizes
    assert [index for batch in batches for index in batch] == list(range(count))


def test_a_batch_without_answer_is_unjudged():
    error = LLMError("no answer", "connection")
    judgement = merged(Answer(BatchScores((9.0, 8.0), ())), Answer(error=error))
    assert list(judgement.scores) == [9.0, 8.0, None, None]
    assert judgement.unjudged == {2, 3}
    assert [(issue.code, issue.positions) for issue in judgement.issues] == [("connection", (2, 3))]


def test_without_any_answer_the_first_error_is_raised():
    first, second = LLMError("no answer", "connection"), LLMError("too late", "timeout")
    with pytest.raises(LLMError, match="no answer"):
        merged(Answer(error=first), Answer(error=second))


def test_errors_that_a_retry_got_over_are_issues_without_positions():
    issues = IssueCollector("graded")
    issues.add_answer(Answer(1, troubles=(LLMError("busy", "rate_limited"),)), range(2))
    [issue] = issues.issues()
    assert (issue.code, issue.positions) == ("asked_again", ())
    assert "rate_limited: busy" in issue.message


MESSAGES = [
    # error; whether the reply is named
    (ReplyError("it is empty", "empty_reply"), True),
    (ReplyError("it is not JSON", "bad_response"), True),
    (ReplyError("none of its numbers is one from 0 to 1", "score_out_of_range"), True),
    (ReplyError("two orders stand in it", "of_your_own"), True),
    (LLMError("it is empty", "empty_reply"), True),
    (LLMError("it took too long", "timeout"), False),
    (MethodError("it raised ValueError"), False),
]


@pytest.mark.parametrize(("error", "named"), MESSAGES)
def test_errors_of_readers_name_the_reply(error, named):
    before = "the model's reply cannot be used: " if named else ""
    assert error_message(error) == f"{before}{error}"

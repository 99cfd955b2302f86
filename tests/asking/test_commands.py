"""What commands say of the calls that they stand for."""

import time

import pytest

from secondpass.asking.gate import Gate
from secondpass.asking.scheduler import (
    CallScorer,
    StartQuestions,
    question_deadline_error,
    scoring_deadline_error,
)
from secondpass.effects import Ask, Estimate, Question
from secondpass.errors import MethodError
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger


def ledger(deadline, ago=0.0):
    return Ledger(Limits(deadline=deadline), time.perf_counter() - ago)


def call(*ledgers, instruction=None):
    return CallScorer(object(), [("q", ["a"])] * len(ledgers), ledgers, instruction)


def test_the_latest_deadline_counts():
    seconds = call(ledger(100), ledger(1000)).seconds_left
    assert 500 < seconds <= 1000
    assert call(ledger(100), ledger(None)).seconds_left is None
    assert call(ledger(1, ago=5), ledger(2, ago=5)).seconds_left == 0


@pytest.mark.parametrize("count", [1, 3])
def test_all_questions_fail_alike(count):
    error = MethodError("down", "server_error")
    question = Question("request", str, None, lambda: None, Estimate(1, 1), 1)
    command = StartQuestions(0, Ask("service", [question] * count), ledger(None), Gate(1))
    answers = command.failed(error)
    assert [(answer.value, answer.error) for answer in answers] == [(None, error)] * count


@pytest.mark.parametrize("missed", ["asked", "answered"])
def test_the_error_of_a_late_question_mentions_time_kept_for_others(missed):
    late = ledger(10, ago=20)
    error = question_deadline_error(late, missed)
    assert (error.code, str(error)) == ("deadline", f"the deadline passed before this was {missed}")
    late = ledger(10)
    late.keep_time(False)
    late.started -= 20
    kept = "the deadline, less the time kept for other methods, passed before"
    assert str(question_deadline_error(late, missed)) == f"{kept} this was {missed}"
    assert str(scoring_deadline_error([late])) == f"{kept} these were scored"


def test_the_error_of_a_question_that_has_too_little_time():
    late = ledger(100)
    message = "not asked: too little time is left for an answer"
    assert str(question_deadline_error(late, "asked")) == message
    late.keep_time(False)
    late.started -= 95
    late.keep_time(True)
    assert late.began_late
    assert str(question_deadline_error(late, "answered")) == message

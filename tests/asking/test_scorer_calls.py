"""Calls of scorers: what they return, raise and yield."""

import time

import pytest

from fakes import Answering, ByTable
from secondpass.asking.batch_scores import BatchScores
from secondpass.asking.drivers import collect, score
from secondpass.asking.scheduler import CallBatches, CallScorer
from secondpass.errors import DeadlineError, MethodError, MissingExtraError
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger

LATE = Ledger(Limits(deadline=1), time.perf_counter() - 5)


def call(scorer, *requests, kind=CallScorer, ledgers=None, instruction=None):
    requests = requests or (("q", ["a", "bb"]),)
    return kind(scorer, requests, ledgers or [Ledger()] * len(requests), instruction)


class Many(ByTable):
    def score_many(self, requests):
        return ([len(document) for document in documents] for _, documents in requests)


def test_scores():
    assert score(call(ByTable())) == [[1.0, 2.0]]
    assert score(call(Many(), ("q", ["a"]), ("p", ["bb", "ccc"]))) == [[1], [2, 3]]


def test_an_instruction_is_passed_on():
    class Instructed:
        def score_pairs(self, query, documents, instruction):
            return [instruction] * len(documents)

    assert score(call(Instructed(), instruction="owls")) == [["owls", "owls"]]


RAISED = {
    "its own error": (MethodError("down", "own"), "own", "down"),
    "a package": (MissingExtraError("embedded", "it"), "missing_extra", "it needs"),
    "another": (KeyError("sk-secret"), "scorer_raised", "the scorer raised KeyError"),
}


@pytest.mark.parametrize(("error", "code", "message"), RAISED.values(), ids=RAISED)
def test_exceptions_become_errors_of_the_method(error, code, message):
    def answer(_count):
        raise error

    ledger = Ledger()
    result = score(call(Answering(answer), ledgers=[ledger]))
    assert (type(result), result.code) == (MethodError, code)
    assert str(result).startswith(message)
    assert "sk-secret" not in str(result)
    assert ledger.error is (error if code == "scorer_raised" else None)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exits_are_passed_on_in_the_thread_of_the_caller(error):
    def answer(_count):
        raise error

    with pytest.raises(error):
        score(call(Answering(answer)))
    assert isinstance(score(call(Answering(answer)), reraised=()), MethodError)


@pytest.mark.parametrize("answer", [lambda n: None, lambda n: [0.5] * (n + 1), lambda n: "no"])
def test_answers_that_are_no_list_of_scores(answer):
    assert isinstance(score(call(Answering(answer))), MethodError)


def test_a_late_call_is_not_made():
    scorer = ByTable()
    assert isinstance(score(call(scorer, ledgers=[LATE])), DeadlineError)
    assert scorer.calls == []


class Batches:
    """Yields what it is given; exceptions are raised."""

    def __init__(self, *results):
        self.results = results
        self.closed = False

    def score_batches(self, requests, deadline):
        try:
            for result in self.results:
                if isinstance(result, Exception):
                    raise result
                yield result
        finally:
            self.closed = True


def collected(scorer, ledger=None, taken=False):
    scores = BatchScores(3)
    if taken:
        scores.take()
    collect(call(scorer, kind=CallBatches, ledgers=[ledger or Ledger()]), scores)
    partial = scores.take()
    return dict(partial.scores), partial.error


def test_batches_are_collected():
    scores, error = collected(Batches([(0, 2, 0.5)], [], [(0, 0, 0.1)]))
    assert (scores, type(error)) == ({2: 0.5, 0: 0.1}, DeadlineError)


def test_what_came_before_an_exception_is_kept():
    scores, error = collected(Batches([(0, 2, 0.5)], ValueError("sk-secret")))
    assert (scores, error.code) == ({2: 0.5}, "scorer_raised")


def test_a_batch_of_another_form_ends_the_call():
    scorer = Batches([(0, 2, 0.5)], [(0, 9, 0.1)], [(0, 0, 0.1)])
    scores, error = collected(scorer)
    assert (scores, error.code, scorer.closed) == ({2: 0.5}, "score_index", True)


def test_no_generator():
    scorer = Batches()
    scorer.score_batches = lambda requests, deadline: None
    scores, error = collected(scorer)
    assert (scores, error.code) == ({}, "scores_no_list")
    assert "score_batches returned a NoneType, not a generator" in str(error)


def test_nothing_is_called_for_scores_that_were_taken_or_are_late():
    for arguments in ({"taken": True}, {"ledger": LATE}):
        scorer = Batches([(0, 0, 0.1)])
        assert collected(scorer, **arguments)[0] == {}
        assert not scorer.closed


def test_nothing_is_added_to_scores_that_were_taken():
    scores = BatchScores(2)
    assert scores.add([(0, 0, 0.5)])
    partial = scores.take()
    assert not scores.add([(0, 1, 0.5)])
    assert dict(partial.scores) == {0: 0.5}

"""The drivers: scorers in threads, questions in an event loop, deadlines."""

import asyncio
import logging
import re
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from fakes import within_deadlines
from secondpass import Reranker
from secondpass.asking import drivers
from secondpass.asking.calls import score as score_call
from secondpass.asking.gate import Gate, LoopGates
from secondpass.asking.scheduler import CallScorer, Pass, StartQuestions
from secondpass.effects import Ask, Score
from secondpass.errors import MethodError, MissingExtraError
from secondpass.limits import Limits
from secondpass.questions import Answer, Completion, Estimate, Question
from secondpass.ranking.ledger import Ledger

NOT_ANSWERED = "the deadline of 5 s passed before this was answered"


class Scorer:
    """Scores by length, in a thread that it remembers."""

    def __init__(self, before=lambda: None):
        self.before = before
        self.threads = []

    def score_pairs(self, query, documents):
        assert query == "q"
        self.threads.append(threading.current_thread())
        self.before()
        return [len(text) for text in documents]


class Service:
    """Replies with the request, after what ``before`` returns."""

    name = "service"

    def __init__(self, before=lambda: asyncio.sleep(0)):
        self.before = before

    async def complete(self, request):
        await self.before()
        return Completion(request)


def ledger_of(deadline=None, overdue=False, **settings):
    started = time.perf_counter() - (3600 if overdue else 0)
    return Ledger(Limits(deadline=deadline), started, **settings)


def pass_of(*effects, deadline=None):
    def plan():
        results = []
        for effect in effects:
            results.append((yield effect))
        return results

    return Pass(plan(), ledger_of(deadline), Gate(8))


def score(scorer, *texts):
    return Score(scorer, "q", texts)


def ask(service, *requests):
    questions = [
        Question(request, lambda completion: completion.text, None, str, Estimate(1, 1), 1)
        for request in requests
    ]
    return Ask(service, questions)


def call_of(scorer, *counts, ledger=None):
    requests = [("q", ["text"] * count) for count in counts]
    return CallScorer(scorer, requests, [ledger or ledger_of()] * len(counts))


def drive(asynchronous, *passes):
    return asyncio.run(drivers.arun(passes)) if asynchronous else drivers.run(passes)


both = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


# ---------------------------------------------------------------------- both drivers


@both
@pytest.mark.parametrize("deadline", [None, 60])
def test_scores_and_answers(asynchronous, deadline):
    service = Service()
    passes = [
        pass_of(score(Scorer(), "a", "bb"), ask(service, "x", "y"), deadline=deadline),
        pass_of(ask(service, "z"), score(Scorer(), "ccc"), deadline=deadline),
    ]
    (first, answers), (other, second) = drive(asynchronous, *passes)
    assert (first.values, second.values) == ([1, 2], [3])
    assert [answer.value for answer in answers] == ["x", "y"]
    assert [answer.value for answer in other] == ["z"]


@both
def test_pending_questions_are_cancelled(asynchronous):
    """When one plan raises, questions of another one do not stay behind."""
    begun, ended = threading.Event(), threading.Event()

    async def wait():
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    def interrupt():
        begun.wait(60)
        raise KeyboardInterrupt

    def failing():
        yield score(Scorer(lambda: begun.wait(60)), "a")
        raise LookupError

    asking = pass_of(ask(Service(wait), "x"))
    with pytest.raises(LookupError):
        drive(asynchronous, asking, Pass(failing(), ledger_of(), Gate(1)))
    assert ended.wait(60)
    if not asynchronous:
        begun.clear()
        ended.clear()
        asking = pass_of(ask(Service(wait), "x"))
        with pytest.raises(KeyboardInterrupt):
            drivers.run([asking, pass_of(score(Scorer(interrupt), "a"))])
        assert ended.wait(60)


def test_rerank_in_the_portal_is_refused():
    async def nested():
        drivers.run([pass_of(ask(Service(), "x"))])

    ((((answer,),)),) = drivers.run([pass_of(ask(Service(nested), "x"))])
    assert (answer.error.code, str(answer.error)) == (
        "nested_call",
        "rerank was called by a model's own asynchronous function, which it would block; "
        "await arerank there",
    )


class Raising:
    @property
    def joins_calls(self):
        raise LookupError


JOINS = {
    "joins": (SimpleNamespace(joins_calls=True), 3),
    "does not": (SimpleNamespace(joins_calls=False), 1),
    "says nothing": (SimpleNamespace(), 1),
    "says nonsense": (SimpleNamespace(joins_calls="yes"), 1),
    "raises": (Raising(), 1),
}


@pytest.mark.parametrize("deadline", [None, 60])
@pytest.mark.parametrize(("member", "most"), JOINS.values(), ids=JOINS)
def test_more_calls_of_scorers_that_join_them(member, most, deadline, monkeypatch):
    monkeypatch.setattr(drivers, "_SCORER_GATES", LoopGates(1))
    monkeypatch.setattr(drivers, "_JOINED_GATES", LoopGates(3))
    lock, reached = threading.Lock(), threading.Event()
    inside, highest = 0, 0

    def count():
        nonlocal inside, highest
        with lock:
            inside += 1
            highest = max(highest, inside)
            if highest == most:
                reached.set()
        assert reached.wait(60)
        with lock:
            inside -= 1

    class Counting(Scorer):
        joins_calls = property(lambda _self: member.joins_calls)

    async def main():
        calls = [
            drivers.arun([pass_of(score(Counting(count), "a"), deadline=deadline)])
            for _ in range(6)
        ]
        return await asyncio.gather(*calls)

    results = asyncio.run(main())
    assert [raw.values for ((raw,),) in results] == [[1]] * 6
    assert highest == most


# ---------------------------------------------------------------------- scorers

missing = MissingExtraError("models", "scoring")
own = MethodError("mine", "my_code")
RAISED = {
    # raised; code and message
    "exception": (LookupError("sk-key"), "scorer_raised", "the scorer raised LookupError"),
    "cancelled": (asyncio.CancelledError(), "scorer_raised", "the scorer raised CancelledError"),
    "method error": (own, "my_code", "mine"),
    "missing extra": (missing, missing.code, str(missing)),
}


@pytest.mark.parametrize(("raised", "code", "message"), RAISED.values(), ids=RAISED)
def test_what_a_scorer_raises(raised, code, message, caplog):
    def fail():
        raise raised

    caplog.set_level(logging.DEBUG, "secondpass.diagnostics")
    ledger = ledger_of()
    error = score_call(call_of(Scorer(fail), 2, ledger=ledger))
    assert (error.code, str(error)) == (code, message)
    recorded = code == "scorer_raised"
    assert ledger.error is (raised if recorded else None)
    assert [record.getMessage() for record in caplog.records] == [message] * recorded


@pytest.mark.parametrize("deadline", [None, 60])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exits_pass_in_sync_calls_only(error, deadline):
    def leave():
        raise error

    with pytest.raises(error):
        drivers.run([pass_of(score(Scorer(leave), "a"), deadline=deadline)])
    item = pass_of(score(Scorer(leave), "a"), deadline=deadline)
    ((raw,),) = asyncio.run(drivers.arun([item]))
    assert raw.failures[0][2].code == "scorer_raised"


MERGED = {
    # what score_many returns for requests of 1 and 2 texts; the scores or the code
    "lists": ([[1], [2, 3]], [[1], [2, 3]]),
    "tuples": (((1,), (2, 3)), [[1], [2, 3]]),
    "too few": ([[1]], "score_count"),
    "none": (None, "scores_no_list"),
    "too many": ([[1], [2, 3], [4]], "score_count"),
    "wrong lengths": ([[1, 2], [3]], "score_count"),
    "no lists": ([1, 2], "scores_no_list"),
}


@pytest.mark.parametrize(("returned", "expected"), MERGED.values(), ids=MERGED)
def test_merged_scores_are_validated(returned, expected):
    class Merging:
        def score_many(self, requests):
            assert requests == [("q", ["text"]), ("q", ["text", "text"])]
            return returned

    outcome = score_call(call_of(Merging(), 1, 2))
    assert (outcome.code if isinstance(outcome, MethodError) else outcome) == expected


# ---------------------------------------------------------------------- overdue questions


def start(number, ledger, count=2):
    return StartQuestions(number, ask(None, *["x"] * count), ledger, Gate(1))


def test_answers_are_taken_out():
    answers = [Answer("yes")]
    pending, ready, broken = Future(), Future(), Future()
    ready.set_result(answers)
    broken.set_exception(LookupError("sk-key"))
    overdue = start(0, ledger_of(5, overdue=True))
    started = {pending: overdue, ready: start(1, ledger_of()), broken: start(2, ledger_of())}
    (first, second) = drivers._take_answers(started, [ready, broken])
    assert first == (1, answers)
    number, failed = second
    assert (number, len(failed)) == (2, 2)
    for answer in failed:
        assert (answer.error.code, str(answer.error)) == ("llm_raised", "asking raised LookupError")
    # What is overdue gets another look, for it may be done by then.
    assert started == {pending: overdue}
    assert not pending.cancelled()


def test_overdue_questions_are_given_up():
    ledgers = {
        "unlimited": ledger_of(),
        "in time": ledger_of(60),
        "clock not started": ledger_of(5, overdue=True, waiting=True),
        "overdue": ledger_of(5, overdue=True),
    }
    futures = {name: Future() for name in ledgers}
    started = {futures[name]: start(at, ledgers[name]) for at, name in enumerate(ledgers)}
    ((number, answers),) = drivers._take_answers(started, [])
    assert number == 3
    assert [(answer.error.code, str(answer.error)) for answer in answers] == [
        ("deadline", NOT_ANSWERED)
    ] * 2
    assert [name for name, future in futures.items() if future.cancelled()] == ["overdue"]
    assert list(started) == [future for name, future in futures.items() if name != "overdue"]


@both
def test_texts_for_which_too_little_time_is_left_are_not_scored(asynchronous):
    class Slow(Scorer):
        batch_size = 10

    def rank(deadline):
        scorer = Slow(lambda: time.sleep(0.6 * deadline))
        reranker = Reranker(scorer, limits={"deadline": deadline}, log_level="debug")
        texts = [str(number) for number in range(30)]
        if asynchronous:
            return asyncio.run(reranker.arerank("q", texts))
        return reranker.rerank("q", texts)

    ranking = within_deadlines(rank, lambda ranking: ranking.report.depth_done)
    (issue,) = ranking.report.issues
    message = r"not scored: too little time is left before the deadline of \S+ s"
    assert (issue.code, issue.positions) == ("deadline", (*range(10, 30),))
    assert re.fullmatch(message, issue.message)


def test_scorer_that_empties_its_lists():
    class Emptying:
        model_name = "emptying"

        def score_pairs(self, query, documents):
            scores = [0.5] * len(documents)
            documents.clear()
            return scores

        def score_many(self, requests):
            requests.clear()
            return []

    reranker = Reranker(Emptying())
    for ranking in reranker.rerank_many([("q", ["a", "b"]), ("r", ["c", "d"])]):
        assert [item.rerank_score for item in ranking] == [0.5, 0.5]
        assert "batch_failed" in [issue.code for issue in ranking.report.issues]

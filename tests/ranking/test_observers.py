"""Observers: which operations they are told of, in which context, and that they do no harm."""

import asyncio
import contextvars
import logging
import time
from types import SimpleNamespace

import pytest

import secondpass
from fakes import Answering, ByTable, Model, always, numbered, ranked
from rankings import WAYS, rank
from secondpass import InputError, Reranker, RerankError
from secondpass.effects import Judgement
from secondpass.errors import LLMError
from secondpass.questions import Completion
from secondpass.ranking.judgements import judged
from secondpass.ranking.observers import (
    MethodOperation,
    RankingOperation,
    RequestOperation,
    ScoringOperation,
    error_of,
    registrations,
)
from secondpass.strategies.cascade import Cascade, CascadeStage
from secondpass.strategies.listwise import Listwise

TEXTS = numbered([3, 9, 5, 7])
BUSY = LLMError("the server is busy", "server_error", retryable=True)
DOWN = LLMError("the key was refused", "authentication")


class Recorder:
    """Keeps operations in the order in which they start and end."""

    def __init__(self):
        self.events = []

    def start(self, operation):
        self.events.append(("start", operation))

    def end(self, operation):
        self.events.append(("end", operation))

    @property
    def started(self):
        return [operation for event, operation in self.events if event == "start"]

    @property
    def ended(self):
        return [operation for event, operation in self.events if event == "end"]

    def only(self, kind):
        return [operation for operation in self.started if type(operation) is kind]

    def tree(self, parent=None):
        """Kinds and names, with what is within each."""
        return [
            (type(one).__name__.removesuffix("Operation").lower(), one.name, *self.tree(one))
            for one in self.started
            if (one.parents[0] if one.parents else None) is parent
        ]


class Texts(Recorder):
    def content(self, operation, texts):
        self.events.append(("content", operation, texts))


@pytest.fixture
def recorder():
    with secondpass.observe(Recorder()) as registration:
        yield registration.observer


def cascade(second, **settings):
    first = ByTable({text: -float(len(text)) for text in TEXTS})
    return Reranker(
        Cascade([CascadeStage(first), CascadeStage(second, 3)]), log_level="debug", **settings
    )


# ---------------------------------------------------------------------- operations


@pytest.mark.parametrize("deadline", [None, 60])
@pytest.mark.parametrize("way", WAYS)
def test_operations_of_a_cascade(recorder, way, deadline):
    reranker = cascade(Listwise(Model(ranked), window=2, stride=1), limits={"deadline": deadline})
    ranking = rank(reranker, way, "q", TEXTS)
    name = "by-table, then listwise by model"
    asked = ("request", "model")
    first = ("method", "by-table", ("scoring", "by-table"))
    second = ("method", "listwise by model", asked, asked)
    assert recorder.tree() == [("ranking", name, ("method", name, first, second))]
    assert [operation.error for operation in recorder.ended] == [None] * 7
    assert all(operation.seconds >= 0 for operation in recorder.ended)
    assert set(recorder.ended) == set(recorder.started)
    (top,) = recorder.only(RankingOperation)
    assert (top.candidates, top.top_k, top.report) == (4, None, ranking.report)
    methods = [(method.texts, method.scored) for method in recorder.only(MethodOperation)]
    assert methods == [(4, 4), (4, 4), (3, 3)]
    (scoring,) = recorder.only(ScoringOperation)
    assert (scoring.queries, scoring.pairs) == (1, 4)
    for request in recorder.only(RequestOperation):
        assert (request.kind, request.provider, request.address) == ("chat", "Model", None)
        assert (request.documents, request.attempt, request.after) == (2, 1, None)
    # What is within an operation ends before it does.
    for operation in recorder.ended:
        for parent in operation.parents:
            assert recorder.ended.index(operation) < recorder.ended.index(parent)


def test_attempts_of_a_question(recorder):
    replies = [
        always(BUSY),
        always("no JSON"),
        lambda shown: Completion(ranked(shown), False, 7, 2),
    ]
    Reranker(Listwise(Model(replies)), limits={"retries": 1}).rerank("q", TEXTS)
    requests = recorder.only(RequestOperation)
    assert [(one.attempt, one.after, one.error, one.input_tokens) for one in requests] == [
        (1, None, "server_error", None),
        (2, "server_error", None, None),
        (3, "reply_refused", None, 7),
    ]


def test_errors(recorder):
    class Slow(Model):
        timeout = 0.01

        async def complete(self, prompt):
            await asyncio.sleep(60)

    reranker = Reranker(
        Listwise(Slow()),
        fallback=[Answering(lambda count: None), Listwise(Model(always(ValueError("secret"))))],
        limits={"retries": 0},
        strict=True,
        log_level="debug",
    )
    with pytest.raises(RerankError):
        reranker.rerank("q", TEXTS)
    (ranking,) = recorder.only(RankingOperation)
    assert (ranking.error, ranking.report.status) == ("RerankError", "unchanged")
    methods = [(one.error, one.scored) for one in recorder.only(MethodOperation)]
    assert methods == [("timeout", None), ("scores_no_list", None), ("llm_raised", None)]
    errors = [one.error for one in recorder.only(RequestOperation)]
    assert errors == ["timeout", "ValueError"]
    (scoring,) = recorder.only(ScoringOperation)
    assert scoring.error == "scores_no_list"
    assert "secret" not in repr(recorder.started)


def test_a_dry_run_is_no_ranking(recorder):
    cascade(Listwise(Model())).expected_use([("q", TEXTS)])
    assert recorder.events == []


# ---------------------------------------------------------------------- ends


def test_operations_of_a_cancelled_ranking_end(recorder):
    async def act():
        asked = asyncio.Event()

        async def hang(_messages):
            asked.set()
            await asyncio.sleep(3600)

        task = asyncio.ensure_future(cascade(Listwise(hang)).arerank("q", TEXTS))
        await asyncio.wait_for(asked.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        until = time.monotonic() + 60
        while len(recorder.ended) < len(recorder.started) and time.monotonic() < until:
            await asyncio.sleep(0.001)

    asyncio.run(act())
    errors = {type(operation): operation.error for operation in recorder.ended}
    assert errors[RankingOperation] == errors[RequestOperation] == "cancelled"
    methods = recorder.only(MethodOperation)
    assert [method.error for method in methods] == ["cancelled", None, "cancelled"]
    assert recorder.only(RankingOperation)[0].report is None


def test_errors_have_names():
    assert error_of(DOWN) == "authentication"
    assert error_of(TimeoutError()) == "timeout"
    assert error_of(GeneratorExit()) == error_of(asyncio.CancelledError()) == "cancelled"
    assert error_of(LookupError("secret")) == "LookupError"


# ---------------------------------------------------------------------- context

current = contextvars.ContextVar("current", default=None)


class Entering:
    """Makes the operation of a call the current one, which it can only undo in the same context."""

    def __init__(self):
        self.tokens = {}
        self.undone = []

    def start(self, operation):
        if isinstance(operation, RequestOperation | ScoringOperation):
            self.tokens[operation] = current.set(operation)

    def end(self, operation):
        if operation in self.tokens:
            current.reset(self.tokens.pop(operation))
            self.undone.append(operation)


@pytest.mark.parametrize("deadline", [None, 60])
@pytest.mark.parametrize("way", WAYS)
def test_calls_run_in_the_context_of_their_operation(way, deadline, caplog):
    seen = []

    class Seeing(Model):
        async def complete(self, prompt):
            seen.append(current.get())
            return await super().complete(prompt)

    class SeeingScorer(ByTable):
        def score_pairs(self, query, documents):
            seen.append(current.get())
            return super().score_pairs(query, documents)

    stages = [CascadeStage(SeeingScorer()), CascadeStage(Listwise(Seeing(ranked)))]
    with secondpass.observe(Entering()) as registration:
        rank(Reranker(Cascade(stages), limits={"deadline": deadline}), way, "q", TEXTS)
        entering = registration.observer
    assert [type(one) for one in seen] == [ScoringOperation, RequestOperation]
    assert entering.undone == seen
    assert current.get() is None
    assert caplog.records == []


# ---------------------------------------------------------------------- content


def test_texts_are_for_observers_that_want_them(recorder):
    model = Model(ranked)
    with secondpass.observe(Texts()) as registration:
        ranking = cascade(Listwise(model)).rerank("q", TEXTS)
    told = [event[1:] for event in registration.observer.events if event[0] == "content"]
    assert [(type(one), *texts) for one, texts in told] == [
        (RankingOperation, "query", "candidates"),
        (ScoringOperation, "requests"),
        (RequestOperation, "request"),
        (RequestOperation, "completion"),
        (RankingOperation, "ranking"),
    ]
    texts = {name: value for _, texts in told for name, value in texts.items()}
    assert texts["query"] == "q"
    assert [candidate.text for candidate in texts["candidates"]] == TEXTS
    assert texts["requests"] == [("q", TEXTS)]
    assert texts["request"] == model.prompts[0]
    assert isinstance(texts["completion"], Completion)
    assert texts["ranking"] is ranking
    order = [event[0] for event in registration.observer.events]
    assert order[:2] == ["start", "content"]
    assert order[-2:] == ["content", "end"]


# ---------------------------------------------------------------------- observers


class Failing:
    def __init__(self):
        self.calls = 0

    def fail(self, *arguments):
        self.calls += 1
        raise LookupError("secret wombats")

    start = end = content = fail


@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_observer_that_fails_does_no_harm(recorder, way, caplog):
    reranker = cascade(Listwise(Model(ranked)), strict=True)
    with (
        caplog.at_level(logging.DEBUG, "secondpass"),
        secondpass.observe(Failing()) as registration,
    ):
        ranking = rank(reranker, way, "q", TEXTS)
    assert (ranking.report.status, ranking.report.issues) == ("ok", ())
    assert registration.observer.calls > 10
    assert [record.getMessage() for record in caplog.records] == [
        "the observer Failing raised LookupError"
    ]
    assert "wombats" not in caplog.text
    assert len(recorder.ended) == len(recorder.started) == 6


@pytest.mark.parametrize(
    ("observer", "message"),
    [
        (None, "observer: give an object with start, end or content"),
        (Failing, "observer: give an instance of Failing, not the class"),
        (SimpleNamespace(start=1), "SimpleNamespace.start: give a function, not an int"),
    ],
)
def test_what_is_no_observer(observer, message):
    with pytest.raises(InputError, match=message):
        secondpass.observe(observer)
    assert not registrations()


def test_a_method_that_closes_another_has_its_own_end(recorder):
    class Closing:
        name, score_kind, scale = "closing", "unbounded", None

        def judge(self, task):
            other = judged(Listwise(Model(ranked)), task)
            yield next(other)
            other.close()
            return Judgement([1.0] * len(task.texts))

    Reranker(Closing()).rerank("q", TEXTS)
    outer, inner = recorder.only(MethodOperation)
    assert (outer.name, outer.scored, outer.error) == ("closing", 4, None)
    assert (inner.name, inner.scored, inner.error) == ("listwise by model", None, "cancelled")
    ended = [item for item in recorder.ended if isinstance(item, MethodOperation)]
    assert ended == [inner, outer]

"""Scorers that return batches until the deadline: ``score_batches``."""

import asyncio
import contextvars
import math
import threading
import time
from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secondpass import Reranker
from secondpass.concurrency import left_behind, threads
from secondpass.effects import Score
from secondpass.errors import DeadlineError, MethodError, MissingExtraError
from secondpass.limits import Limits
from secondpass.runtime import drivers
from secondpass.runtime.commands import CallBatches, CallScorer, PartialScores
from secondpass.runtime.gate import Gate
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.scheduler import Pass, schedule
from secondpass.runtime.scorer_calls import BatchScores, collect

LATE = "the deadline passed before these were scored"
ENDED = "the scorer ended without scoring these"
SECONDS = 30  # a wait for what happens at once


class InBatches:
    """Yields what a function of the documents and the deadline yields."""

    model_name = "in-batches"

    def __init__(self, generate, **members):
        self.generate = generate
        self.calls = []
        for name, value in members.items():
            setattr(self, name, value)

    def score_pairs(self, query, documents):
        raise AssertionError("score_batches is there")

    def score_batches(self, requests, deadline):
        ((query, documents),) = requests
        self.calls.append((query, list(documents)))
        return self.generate(documents, deadline)


def in_twos(documents, _deadline):
    """Two documents at a time; the score is the position."""
    for start in range(0, len(documents), 2):
        stop = min(start + 2, len(documents))
        yield [(0, index, float(index)) for index in range(start, stop)]


def rerank(asynchronous, scorer, documents="abcd", **options):
    reranker = Reranker(scorer, **{"limits": {"deadline": 60}, **options})
    if asynchronous:
        return asyncio.run(reranker.arerank("q", list(documents)))
    return reranker.rerank("q", list(documents))


def scores_of(ranking):
    """The scores by position."""
    return {item.position: item.rerank_score for item in ranking if item.status == "scored"}


both = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])

# ---------------------------------------------------------------------- the scheduler


class Raising:
    @property
    def score_batches(self):
        raise LookupError


def pass_of(scorer, count=3, at_most=32, overdue=False, **limits):
    def plan():
        return (yield Score(scorer, "q", [f"d{index}" for index in range(count)], at_most))

    return Pass(plan(), Ledger(Limits(**limits), -math.inf if overdue else math.inf), Gate(1))


def drive(passes, outcome):
    """The results of passes, and the commands on the way."""
    commands, sent = [], None
    work = schedule(passes)
    while True:
        try:
            commands.append(work.send(sent))
        except StopIteration as stop:
            return stop.value, commands
        sent = outcome(commands[-1])


def every_score(command):
    if isinstance(command, CallBatches):
        ((_, documents),) = command.requests
        return PartialScores(dict.fromkeys(range(len(documents)), 1.0), MethodError("?"))
    return [[1.0] * len(documents) for _, documents in command.requests]


batched = InBatches(in_twos)
merging = InBatches(in_twos, score_many=None)
COMMANDS = {
    # scorer, texts per call at most, deadline; the command
    "deadline": (batched, 32, 60, CallBatches),
    "no deadline": (batched, 32, None, CallScorer),
    "not pointwise": (batched, None, 60, CallScorer),
    "no such method": (Raising(), 32, 60, CallScorer),
}


@pytest.mark.parametrize(("scorer", "most", "deadline", "kind"), COMMANDS.values(), ids=COMMANDS)
def test_used_with_a_deadline(scorer, most, deadline, kind):
    item = pass_of(scorer, at_most=most, deadline=deadline)
    (raw,), (command,) = drive([item], every_score)
    assert type(command) is kind
    assert (raw.values, raw.failures, raw.called) == ([1.0] * 3, [], True)
    assert (item.ledger.calls, item.ledger.rounds, item.ledger.pairs) == (1, 1, 3)
    if kind is CallBatches:
        assert command.requests == [("q", ["d0", "d1", "d2"])]
        assert command.ledgers == [item.ledger]


def test_texts_without_score_fail():
    error = MethodError("why", "code")
    item = pass_of(batched, 6, deadline=60)
    (raw,), _ = drive([item], lambda _: PartialScores({4: "four", 1: "one"}, error))
    assert raw.values == [None, "one", None, None, "four", None]
    assert raw.failures == [(index, index + 1, error) for index in (0, 2, 3, 5)]
    assert (item.ledger.calls, item.ledger.pairs) == (1, 2)


def test_overdue_pass_is_not_called():
    item = pass_of(batched, 2, overdue=True, deadline=5)
    (raw,), commands = drive([item], every_score)
    assert (commands, raw.called, item.ledger.calls) == ([], False, 0)
    assert {(type(error), str(error)) for _, _, error in raw.failures} == {(DeadlineError, LATE)}
    assert [range(start, stop) for start, stop, _ in raw.failures] == [range(1), range(1, 2)]


def test_each_pass_has_its_own_call_and_clock():
    scorer = InBatches(in_twos, score_many=list)
    passes = [pass_of(scorer, overdue=True, deadline=60) for _ in range(2)]
    waiting = []

    def outcome(command):
        waiting.append([item.ledger.waiting for item in passes])
        assert command.ledgers[0] is passes[len(waiting) - 1].ledger
        assert 30 < command.seconds_left <= 60
        return every_score(command)

    results, _ = drive(passes, outcome)
    assert waiting == [[False, True], [False, False]]
    assert [raw.failures for raw in results] == [[], []]


# ---------------------------------------------------------------------- what batches may hold

ROWS = [(0, 0, 0.5), (0, 2, 0.25)]


class Index:
    def __index__(self):
        return 1


MALFORMED = "score_batches did not yield (index of request, index of document, score)"
UNKNOWN = "score_batches scored a request or document that does not exist"
TWICE = "score_batches scored a document twice"
ADDED = {
    # batches of 4 documents; the scores, and the code and message of the error
    "two batches": ([ROWS, [(0, 1, 1.0)]], {0: 0.5, 2: 0.25, 1: 1.0}, None, None),
    "any iterables": ([iter([[0, Index(), "x"]])], {1: "x"}, None, None),
    "empty": ([[], ()], {}, None, None),
    "unknown document": (
        [ROWS, [(0, 1, 1.0), (0, 4, 1.0)]],
        {0: 0.5, 2: 0.25},
        "score_index",
        UNKNOWN,
    ),
    "negative": ([ROWS, [(0, -1, 1.0)]], {0: 0.5, 2: 0.25}, "score_index", UNKNOWN),
    "unknown request": ([ROWS, [(1, 1, 1.0)]], {0: 0.5, 2: 0.25}, "score_index", UNKNOWN),
    "float": ([[(0, 1.0, 1.0)]], {}, "score_index", MALFORMED),
    "pairs": ([[(0, 1.0)]], {}, "score_index", MALFORMED),
    "numbers": ([[1.0]], {}, "score_index", MALFORMED),
    "not a list": (
        [ROWS, 1.0],
        {0: 0.5, 2: 0.25},
        "scores_no_list",
        "score_batches yielded a float, not a list",
    ),
    "twice in a batch": (
        [ROWS, [(0, 1, 1.0), (0, 1, 1.0)]],
        {0: 0.5, 2: 0.25},
        "score_repeated",
        TWICE,
    ),
    "twice": ([ROWS, [(0, 1, 1.0), (0, 2, 0.25)]], {0: 0.5}, "score_repeated", TWICE),
}


@pytest.mark.parametrize(("batches", "scores", "code", "message"), ADDED.values(), ids=ADDED)
def test_batches_are_validated(batches, scores, code, message):
    collected = BatchScores(4)
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


def test_nothing_is_added_after_taking():
    collected = BatchScores(4)
    collected.add(ROWS)
    taken = collected.take()
    assert not collected.add([(0, 1, 1.0)])
    with pytest.raises(MethodError):
        collected.add([(0, 0, 1.0)])
    assert taken.scores == {0: 0.5, 2: 0.25}
    assert (type(taken.error), str(taken.error)) == (DeadlineError, LATE)


def test_endless_batch_is_refused():
    def rows():
        while True:
            yield (0, 1, 1.0)

    with pytest.raises(MethodError, match="twice"):
        BatchScores(4).add(rows())


# ---------------------------------------------------------------------- what generators may do


def after(count, act):
    """A generator of ``count`` documents that ends with ``act``."""

    def generate(documents, _deadline):
        for index in range(count):
            yield [(0, index, float(index))]
        yield from act()

    return generate


def ends():
    return ()


def raises(error):
    def act():
        raise error

    return act


class NoGenerator:
    pass


own = MethodError("mine", "my_code")
missing = MissingExtraError("models", "scoring")
GENERATORS = {
    # what generates; scores, code and message of the issue
    "complete": (in_twos, 4, None, None),
    "list": (lambda documents, _: list(in_twos(documents, 0)), 4, None, None),
    "list, too short": (lambda *_: [[(0, 0, 0.0)]], 1, "deadline", ENDED),
    "ends early": (after(3, ends), 3, "deadline", ENDED),
    "exception": (after(2, raises(LookupError("sk-key"))), 2, "scorer_raised", "LookupError"),
    "StopIteration": (after(2, raises(StopIteration())), 2, "scorer_raised", "RuntimeError"),
    "cancelled": (after(1, raises(asyncio.CancelledError())), 1, "scorer_raised", "Cancelled"),
    "own error": (after(2, raises(own)), 2, "my_code", "mine"),
    "no package": (after(2, raises(missing)), 2, "missing_extra", "pip install"),
    "unknown": (after(2, lambda: [[(0, 9, 1.0)]]), 2, "score_index", "does not exist"),
    "repeated": (after(2, lambda: [[(0, 1, 1.0)]]), 1, "score_repeated", "twice"),
    "all fail": (after(0, raises(own)), 0, "my_code", "mine"),
    "ends at once": (after(0, ends), 0, "deadline", ENDED),
    "no generator": (lambda *_: 1.0, 0, "scores_no_list", "float, not a generator"),
    "None": (lambda *_: None, 0, "scores_no_list", "NoneType, not a generator"),
    "raises when called": (lambda *_: 1 / 0, 0, "scorer_raised", "ZeroDivisionError"),
}


@both
@pytest.mark.parametrize(
    ("generate", "count", "code", "message"), GENERATORS.values(), ids=GENERATORS
)
def test_scores_so_far_are_kept(asynchronous, generate, count, code, message):
    ranking = rerank(asynchronous, InBatches(generate))
    assert scores_of(ranking) == {index: float(index) for index in range(count)}
    report = ranking.report
    expected = "ok" if count == 4 else "partial" if count else "unchanged"
    assert (report.status, report.usage.calls, report.usage.pairs) == (expected, 1, count)
    if code is None:
        assert report.issues == ()
    else:
        (issue,) = report.issues
        assert issue.code == code
        assert message in issue.message
        assert "sk-key" not in issue.message
        # If nothing is scored, the issue concerns the whole method.
        assert issue.positions == (tuple(range(count, 4)) if count else ())


@pytest.mark.parametrize("why", ["overdue", "taken"])
def test_late_call_is_not_made(why):
    scorer, collected = InBatches(in_twos), BatchScores(2)
    started = -math.inf if why == "overdue" else math.inf
    if why == "taken":
        collected.take()
    ledger = Ledger(Limits(deadline=5), started)
    collect(CallBatches(scorer, [("q", ["a", "b"])], [ledger]), collected)
    assert (scorer.calls, collected.take().scores) == ([], {})


@both
def test_own_exceptions_are_the_cause(asynchronous):
    from secondpass import RerankError

    error = LookupError("why")
    with pytest.raises(RerankError) as raised:
        rerank(asynchronous, InBatches(after(2, raises(error))), strict=True)
    assert raised.value.__cause__ is error


@both
def test_scores_are_validated(asynchronous):
    scores = [math.nan, True, 1, 0.5]
    generate = lambda *_: iter([[(0, index, score)] for index, score in enumerate(scores)])  # noqa: E731
    ranking = rerank(asynchronous, InBatches(generate))
    assert scores_of(ranking) == {2: 1.0, 3: 0.5}
    codes = {issue.code: issue.positions for issue in ranking.report.issues}
    assert codes == {"score_not_finite": (0,), "score_not_a_number": (1,)}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exits_pass_in_sync_calls_only(error):
    scorer = InBatches(after(2, raises(error)))
    with pytest.raises(error):
        rerank(False, scorer)
    assert {issue.code for issue in rerank(True, scorer).report.issues} == {"scorer_raised"}


@both
def test_scorers_get_monotonic_time(asynchronous):
    deadlines = []

    def generate(documents, deadline):
        deadlines.append(deadline - time.monotonic())
        yield from in_twos(documents, deadline)

    assert rerank(asynchronous, InBatches(generate)).report.status == "ok"
    assert 30 < deadlines[0] <= 60


def test_centuries_until_the_deadline():
    for asynchronous in (False, True):
        ranking = rerank(asynchronous, InBatches(in_twos), limits={"deadline": 1e300})
        assert ranking.report.status == "ok"


@both
def test_error_while_closing_is_recorded(asynchronous):
    """The batch is wrong, and then the generator raises when it is closed."""

    def generate(*_):
        yield [(0, 0, 1.0)]
        try:
            yield [(0, 9, 1.0)]
        finally:
            raise LookupError

    ranking = rerank(asynchronous, InBatches(generate))
    assert scores_of(ranking) == {0: 1.0}
    assert [issue.code for issue in ranking.report.issues] == ["scorer_raised"]


@both
def test_scorer_that_empties_its_lists(asynchronous):
    def generate(documents, deadline):
        yield from list(in_twos(documents, deadline))
        documents.clear()

    assert rerank(asynchronous, InBatches(generate)).report.status == "ok"


variable = contextvars.ContextVar("variable", default=None)


@both
def test_generator_stays_in_one_thread_and_context(asynchronous):
    seen = []

    def look():
        seen.append((threading.get_ident(), variable.get()))

    def generate(documents, deadline):
        look()
        variable.set("scorer's")
        try:
            yield from in_twos(documents, deadline)
            yield [(0, 9, 1.0)]
        finally:
            look()

    token = variable.set("caller's")
    try:
        rerank(asynchronous, InBatches(generate))
        assert variable.get() == "caller's"
    finally:
        variable.reset(token)
    (thread, first), (same_thread, last) = seen
    assert (first, last) == ("caller's", "scorer's")
    assert thread == same_thread != threading.get_ident()


# ---------------------------------------------------------------------- cut off


class Cut:
    """A deadline that comes when a scorer says so, in place of the clock.

    ``arrive`` is called by the scorer's thread: the drivers' waits end, and the thread goes on when
    the rankings have returned.
    """

    def __init__(self, monkeypatch):
        self.arrived, self.returned = threading.Event(), threading.Event()
        monkeypatch.setattr(drivers, "_within", self.within)
        monkeypatch.setattr(threads, "with_timeout", self.with_timeout)

    def arrive(self):
        self.arrived.set()
        assert self.returned.wait(SECONDS)

    def within(self, work, _seconds):
        ended = threading.Event()

        def run():
            try:
                work()
            finally:
                ended.set()
                self.arrived.set()

        threading.Thread(target=run, daemon=True).start()
        assert self.arrived.wait(SECONDS)
        if ended.is_set():
            self.arrived.clear()

    async def with_timeout(self, work, _seconds):
        task = asyncio.ensure_future(work)
        until = time.monotonic() + SECONDS
        while not (task.done() or self.arrived.is_set()):
            assert time.monotonic() < until
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            raise TimeoutError
        return task.result()


class Planned:
    """For each query, a list of batches; the last query's ends as ``ending`` says."""

    model_name = "planned"

    def __init__(self, plans, ending, cut):
        self.plans, self.ending, self.cut = plans, ending, cut
        self.stopped = threading.Event()
        self.went_on = False

    def score_pairs(self, query, documents):
        raise AssertionError("score_batches is there")

    def score_batches(self, requests, deadline):
        ((query, documents),) = requests
        batches, rest = self.plans[query]
        assert sorted(chain(*batches, rest)) == list(range(len(documents)))
        for batch in batches:
            yield [(0, index, score_of(query, index)) for index in batch]
        if query == str(len(self.plans) - 1):
            yield from self.end(query, batches, rest)

    def end(self, query, batches, rest):
        try:
            if self.ending == "late":
                self.cut.arrive()
                yield [(0, index, math.inf) for index in rest]
                self.went_on = True
            elif self.ending == "raises":
                raise LookupError
            elif self.ending == "repeats":
                yield [(0, index, math.inf) for index in [*chain(*batches)][:1]]
            elif self.ending == "unknown":
                yield [*((0, index, math.inf) for index in rest), (0, 10**6, 1.0)]
        finally:
            self.stopped.set()


def score_of(query, index):
    return int(query) * 100.0 + index * 7 % 10


CODES = {
    "ends": "deadline",
    "late": "deadline",
    "raises": "scorer_raised",
    "repeats": "score_repeated",
    "unknown": "score_index",
}


@st.composite
def plans(draw):
    """For each query, its documents in batches, and those that are not scored."""
    result = {}
    for number in range(draw(st.integers(1, 3))):
        indices = draw(st.permutations(range(draw(st.integers(1, 12)))))
        cuts = sorted(draw(st.lists(st.integers(0, len(indices)), max_size=4)))
        bounds = [0, *cuts]
        batches = [indices[a:b] for a, b in pairwise(bounds)]
        result[str(number)] = batches, indices[bounds[-1] :]
    return result


@settings(max_examples=100)
@given(plans=plans(), ending=st.sampled_from(sorted(CODES)))
def test_interruptions_lose_nothing(plans, ending):
    """Sync and async use exactly the batches that came before the interruption."""
    results = []
    for asynchronous in (False, True):
        with pytest.MonkeyPatch.context() as monkeypatch:
            cut = Cut(monkeypatch)
            scorer = Planned(plans, ending, cut)
            reranker = Reranker(scorer, limits={"deadline": 60})
            requests = [
                (query, ["text"] * len([*chain(*batches, rest)]))
                for query, (batches, rest) in plans.items()
            ]
            try:
                if asynchronous:
                    rankings = asyncio.run(reranker.arerank_many(requests))
                else:
                    rankings = reranker.rerank_many(requests)
            finally:
                cut.returned.set()
            assert scorer.stopped.wait(SECONDS)
            assert not scorer.went_on
            results.append(rankings)
    assert [scores_of(one) for one in results[0]] == [scores_of(one) for one in results[1]]
    for (query, (batches, _)), ranking in zip(plans.items(), results[0], strict=True):
        count = len(ranking)
        assert sorted(ranking.order) == list(range(count))
        scored = set(chain(*batches))
        is_last = query == str(len(plans) - 1)
        if is_last and ending == "repeats":
            scored -= set([*chain(*batches)][:1])
        assert scores_of(ranking) == {index: score_of(query, index) for index in scored}
        unscored = [index for index in range(count) if index not in scored]
        assert list(ranking.order[len(scored) :]) == unscored
        codes = [issue.code for issue in ranking.report.issues]
        repeats = is_last and ending == "repeats" and batches and any(batches)
        code = CODES[ending] if is_last and (ending != "repeats" or repeats) else "deadline"
        assert codes == ([code] if unscored else [])


@both
def test_hanging_scorer_is_left_behind(asynchronous):
    """With the real clock."""
    release, closed = threading.Event(), threading.Event()

    def generate(*_):
        try:
            release.wait(SECONDS)
            while True:
                yield []
        finally:
            closed.set()

    ranking = rerank(asynchronous, InBatches(generate), limits={"deadline": 0.05})
    assert [(issue.code, issue.message) for issue in ranking.report.issues] == [("deadline", LATE)]
    assert not closed.is_set()
    release.set()
    assert closed.wait(SECONDS)


def stepping():
    """A generator that says when it is in its second batch, and waits there; and its events."""
    begun, go, closed = (threading.Event() for _ in range(3))
    yielded = []

    def generate(*_):
        try:
            yield [(0, 0, 1.0)]
            begun.set()
            go.wait(SECONDS)
            for index in (1, 2, 3):
                yielded.append(index)
                yield [(0, index, 1.0)]
        finally:
            closed.set()

    return generate, begun, go, closed, yielded


def test_cancellation_stops_after_the_batch():
    generate, begun, go, closed, yielded = stepping()

    async def main():
        reranker = Reranker(InBatches(generate), limits={"deadline": 60})
        task = asyncio.ensure_future(reranker.arerank("q", list("abcd")))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not closed.is_set()

    asyncio.run(main())
    go.set()
    assert closed.wait(SECONDS)
    assert yielded == [1]


def test_interrupt_stops_after_the_batch(monkeypatch):
    """Ctrl-C while the calling thread waits for the scorer's."""
    generate, begun, go, closed, yielded = stepping()
    join = threading.Thread.join

    def interrupted(thread, timeout=None):
        if thread.name != "secondpass":
            return join(thread, timeout)
        assert begun.wait(SECONDS)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rerank(False, InBatches(generate))
    assert not closed.is_set()
    go.set()
    assert closed.wait(SECONDS)
    assert yielded == [1]


def test_call_that_waited_too_long_is_not_made(monkeypatch):
    """The deadline passes, or the task is cancelled, while its scorer waits for a slot."""
    scorer = InBatches(in_twos)
    monkeypatch.setattr(drivers, "_SCORER_GATE", Gate(1))

    async def hold(held):
        async with drivers._SCORER_GATE.in_this_loop():
            held.set()
            await asyncio.sleep(SECONDS)

    async def main():
        held = asyncio.Event()
        holder = asyncio.ensure_future(hold(held))
        await held.wait()
        ranking = await Reranker(scorer, limits={"deadline": 0.01}).arerank("q", list("abcd"))
        assert [issue.message for issue in ranking.report.issues] == [LATE]
        task = asyncio.ensure_future(
            Reranker(scorer, limits={"deadline": 60}).arerank("q", list("abcd"))
        )
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        holder.cancel()

    asyncio.run(main())
    assert scorer.calls == []


@both
@pytest.mark.parametrize("member", ["score_batches", "score_pairs"])
def test_no_thread_can_be_started(asynchronous, member, monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "secondpass":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(threads, "_idle", [])
    monkeypatch.setattr(left_behind, "_left", set())
    scorer = InBatches(in_twos, **({} if member == "score_batches" else {"score_batches": None}))
    report = rerank(asynchronous, scorer).report
    assert report.status == "unchanged"
    assert [(issue.code, issue.message) for issue in report.issues] == [
        ("no_thread", "no thread could be started for the scorer")
    ]
    assert not left_behind._left

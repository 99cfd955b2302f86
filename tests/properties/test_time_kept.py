"""Methods that hang leave time to those behind them: to later stages, and to fallbacks."""

import asyncio
import threading
import time
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakes import within_deadlines
from rotation import rotated
from sampling import examples
from secondpass import Reranker
from secondpass import reranker as reranker_module
from secondpass.asking import dispatch
from secondpass.asking.gate import Gate
from secondpass.effects import Ask, Judgement
from secondpass.errors import DeadlineError
from secondpass.limits import Limits
from secondpass.questions import Answer, Completion, Estimate, ListScores, Prompt, Question, Turn
from secondpass.ranking import ledger as ledger_module
from secondpass.ranking.scoring import ScorerMethod
from secondpass.ranking.stages import Stage
from secondpass.strategies.cascade import Cascade, CascadeStage

TEXTS = ["one", "two", "three"]
PROMPT = Prompt("", (Turn("user", ""),))


class Asking:
    """Asks questions one after the other, and scores if the last one is answered."""

    name = "asking"
    score_kind = "rank"
    scale = None

    def __init__(self, rounds):
        self.rounds = rounds

    def judge(self, task):
        question = Question(PROMPT, str, None, lambda: None, Estimate(1, 1), len(task.texts))
        for _ in range(self.rounds):
            (answer,) = yield Ask(self, [question])
        if answer.error is not None:
            raise answer.error
        return Judgement([1.0] * len(task.texts))


class Scoring:
    """A scorer that takes a time for each text, by a clock of its own, and may end late.

    Attributes:
        had: the seconds that each call had.
    """

    model_name = "scoring"

    def __init__(self, pace, overrun=0.0):
        self.pace, self.overrun = pace, overrun
        self.had = []

    def score_pairs(self, query, documents):
        raise AssertionError

    def score_batches(self, requests, deadline):
        had = deadline - time.monotonic()
        self.had.append(had)
        left = had
        for index in range(len(TEXTS)):
            self.clock[0] += min(self.pace, left) + self.overrun
            left -= min(self.pace, left)
            if left <= 0:
                return
            yield [(0, index, 1.0)]


def ranked(reranker, mode):
    if mode == "rerank":
        return reranker.rerank("one", TEXTS)
    if mode == "arerank":
        return asyncio.run(reranker.arerank("one", TEXTS))
    return reranker.rerank_many([("one", TEXTS)])[0]


def rank_with_hanging_questions(method, fallbacks, deadline, mode, takes=float("inf")):
    """The ranking, and the seconds that each question had until it was given up."""
    clock, seconds = [0.0], []

    async def hang(effect, ledger, _gate):
        seconds.append(ledger.question_seconds_left)
        clock[0] += min(seconds[-1], takes)
        late = DeadlineError("late") if seconds[-1] < takes else None
        return [Answer("yes", late) for _ in effect.questions]

    reranker = Reranker(method, fallback=fallbacks, limits={"deadline": deadline})
    for scorer in scorers_of(method):
        scorer.clock = clock
    fake_time = SimpleNamespace(perf_counter=lambda: clock[0], monotonic=time.monotonic)
    with (
        patch.object(ledger_module, "time", fake_time),
        patch.object(reranker_module, "Ledger", partial(ledger_module.Ledger, started=0.0)),
        patch.object(dispatch, "ask", hang),
    ):
        return ranked(reranker, mode), seconds


def scorers_of(method):
    stages = [stage.method for stage in getattr(method, "stages", ())]
    return [one.scorer for one in stages if hasattr(one, "scorer")]


def cascade(stages):
    return Cascade([CascadeStage(stage) for stage in stages])


askers = st.builds(Asking, st.integers(1, 2))
methods = st.recursive(
    askers, lambda inner: st.lists(inner, min_size=2, max_size=4).map(cascade), max_leaves=6
)


def questions_of(method):
    """The number of questions of each method that asks, in the order in which they run."""
    if isinstance(method, Asking):
        return [method.rounds]
    return [rounds for stage in method.stages for rounds in questions_of(stage.method)]


@examples(20)
@given(
    methods,
    st.lists(methods, max_size=3),
    st.floats(0.5, 500),
    st.sampled_from(["rerank", "arerank", "rerank_many"]),
)
@example(cascade([Asking(1), cascade([Asking(2), Asking(1)])]), [Asking(1)], 10.0, "rerank")
def test_each_method_that_hangs_has_four_fifths_of_the_time_left(method, fallbacks, deadline, mode):
    ranking, seconds = rank_with_hanging_questions(method, fallbacks, deadline, mode)
    rounds = [each for one in (method, *fallbacks) for each in questions_of(one)]
    expected, left = [], deadline
    for number, questions in enumerate(rounds, 1):
        share = left if number == len(rounds) else 0.8 * left
        expected += [share, *[0.0] * (questions - 1)]
        left -= share
    assert seconds == pytest.approx(expected, abs=1e-6 * deadline)
    assert sum(seconds) == pytest.approx(deadline)
    assert ranking.report.status == "unchanged"
    assert ranking.order == (0, 1, 2)


MODES = st.sampled_from(["rerank", "arerank", "rerank_many"])


@examples(30)
@given(
    pace=st.floats(0, 200),
    overrun=st.floats(0, 30),
    takes=st.floats(0, 200),
    deadline=st.floats(60, 500),
    mode=MODES,
)
@example(pace=1e6, overrun=0.0, takes=1.0, deadline=60.0, mode="rerank")
@example(pace=1e6, overrun=3.0, takes=1.0, deadline=60.0, mode="arerank")
@example(pace=1e6, overrun=8.0, takes=1.0, deadline=60.0, mode="rerank")
def test_a_question_behind_a_slow_scorer_has_time_or_is_not_sent(
    pace, overrun, takes, deadline, mode
):
    """Also if the scorer ends too late: half of the time kept for the question must be left."""
    scorer = Scoring(pace, overrun)
    method = Cascade([CascadeStage(ScorerMethod(scorer)), CascadeStage(Asking(1))])
    ranking, seconds = rank_with_hanging_questions(method, [], deadline, mode, takes)
    assert scorer.had == pytest.approx([0.8 * deadline], abs=0.5)
    assert all(had == 0 or had >= 0.1 * deadline - 1e-6 for had in seconds)
    if not overrun:
        assert min(seconds) >= 0.2 * deadline - 0.5
    assert ranking.report.status in {"ok", "partial", "degraded", "unchanged"}


def test_scorers_of_a_cascade_and_a_fallback_have_time_in_turn():
    first, second = Scoring(1e6), Scoring(1e6)
    method = Cascade([CascadeStage(ScorerMethod(first)), CascadeStage(ScorerMethod(second))])
    ranking, seconds = rank_with_hanging_questions(method, [Stage(Asking(1))], 100.0, "rerank")
    assert ranking.report.status == "unchanged"
    assert [*first.had, *second.had, *seconds] == pytest.approx([80, 16, 4], abs=1)


@examples(60)
@given(
    durations=st.lists(st.floats(0.5, 400), min_size=1, max_size=12),
    deadline=st.floats(1, 1000),
    kept=st.booleans(),
)
@example([100.0, 100.0], 150.0, False)
def test_no_question_is_sent_that_takes_longer_than_is_left(durations, deadline, kept):
    """As estimated by the fastest answer of the same service in the ranking."""
    ledger = ledger_module.Ledger(Limits(deadline=deadline, concurrency=1))
    ledger.keep_time(last=not kept)
    fastest, sent = [0.0], []

    class Service:
        name = "service"
        timeout = None

        async def complete(self, request):
            left = ledger.question_seconds_left
            sent.append(left)
            assert left >= fastest[0] - 0.5
            took = durations[len(sent) - 1]
            ledger.started -= took
            if took <= left:
                fastest[0] = min(fastest[0] or took, took)
            return Completion("yes")

    question = Question(PROMPT, lambda done: done.text, None, lambda: None, Estimate(1, 1), 1)
    asked = Ask(Service(), [question] * len(durations))
    answers = asyncio.run(dispatch.ask(asked, ledger, Gate(1)))
    assert len(answers) == len(durations)
    assert sent
    assert ledger.questions == len(sent)
    assert {answer.error.code for answer in answers if answer.error} <= {"deadline"}


def test_a_scorer_before_a_fallback_has_all_of_the_time():
    """The fallback runs only if nothing was scored."""
    scorer = Scoring(1.0)
    rank_with_hanging_questions(ScorerMethod(scorer), [Stage(Asking(1))], 100.0, "rerank")
    assert scorer.had == pytest.approx([100], abs=1)


class Blocked:
    """A scorer that scores the first texts, if any, and the rest when most of the time is over."""

    model_name = "blocked"
    batch_size = 1

    def __init__(self, first, until):
        self.first, self.until = first, until
        self.calls = 0

    def wait(self):
        threading.Event().wait(self.until if self.first == 0 or self.calls > 1 else 0)


class BlockedPairs(Blocked):
    def score_pairs(self, query, documents):
        self.calls += 1
        self.wait()
        return [1.0] * len(documents)


class BlockedBatches(BlockedPairs):
    def score_batches(self, requests, deadline):
        for index in range(len(requests[0][1])):
            self.calls += 1
            if self.calls <= 2:
                self.wait()
            yield [(0, index, 1.0)]


class BlockedLists(BlockedPairs):
    pointwise = False

    def score_lists(self, requests, deadline):
        for scored in (1, 3):
            self.calls += 1
            self.wait()
            yield [ListScores([1.0] * scored + [None] * (3 - scored))]


BLOCKED = {"pairs": BlockedPairs, "batches": BlockedBatches, "lists": BlockedLists}


@pytest.mark.parametrize("passages", [None, {}], ids=["whole", "passages"])
@pytest.mark.parametrize(
    ("scorer", "mode"), rotated(list(BLOCKED), ["rerank", "arerank", "rerank_many"])
)
def test_a_scorer_that_scores_nothing_leaves_time_for_its_fallback(scorer, mode, passages):
    def rank(deadline):
        method, limits = BLOCKED[scorer](0, deadline), {"deadline": deadline}
        reranker = Reranker(method, fallback=["lexical"], passages=passages, limits=limits)
        report = ranked(reranker, mode).report
        return report.status, report.method, report.seconds < deadline

    expected = ("degraded", "lexical", True)
    assert within_deadlines(rank, lambda result: result == expected) == expected


@pytest.mark.parametrize(
    ("scorer", "mode"), rotated(["batches", "lists"], ["rerank", "arerank", "rerank_many"])
)
def test_a_scorer_that_scores_something_has_the_time_of_its_fallback(scorer, mode):
    def rank(deadline):
        method, limits = BLOCKED[scorer](1, 0.85 * deadline), {"deadline": deadline}
        return ranked(Reranker(method, fallback=["lexical"], limits=limits), mode)

    ranking = within_deadlines(rank, lambda ranking: not ranking.report.issues)
    assert (ranking.report.method, ranking.report.issues) == ("blocked", ())
    assert {item.status for item in ranking} == {"scored"}

"""Methods that hang leave time to those behind them: to later stages, and to fallbacks."""

import asyncio
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sampling import examples
from secondpass import Reranker
from secondpass import reranker as reranker_module
from secondpass.effects import Answer, Ask, Estimate, Judgement, Prompt, Question, Turn
from secondpass.errors import DeadlineError
from secondpass.runtime import ledger as ledger_module
from secondpass.runtime import recall
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


def rank_with_hanging_questions(method, fallbacks, deadline, mode):
    """The ranking, and the seconds that each question had until it was given up."""
    clock, seconds = [0.0], []

    async def hang(effect, ledger, _gate):
        seconds.append(ledger.question_seconds_left)
        clock[0] += seconds[-1]
        return [Answer(error=DeadlineError("late")) for _ in effect.questions]

    reranker = Reranker(method, fallback=fallbacks, limits={"deadline": deadline})
    fake_time = SimpleNamespace(perf_counter=lambda: clock[0])
    with (
        patch.object(ledger_module, "time", fake_time),
        patch.object(reranker_module, "Ledger", partial(ledger_module.Ledger, started=0.0)),
        patch.object(recall, "ask", hang),
    ):
        if mode == "rerank":
            ranking = reranker.rerank("q", TEXTS)
        elif mode == "arerank":
            ranking = asyncio.run(reranker.arerank("q", TEXTS))
        else:
            (ranking,) = reranker.rerank_many([("q", TEXTS)])
    return ranking, seconds


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

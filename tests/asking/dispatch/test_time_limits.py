"""The deadline of a ranking."""

import asyncio
import threading
import time

import pytest

from fakes import graded, numbered, shown_in, within_deadlines
from scripted_services import ADAPTED, ScriptedService, question, ranked_by
from secondpass import Reranker
from secondpass.asking import dispatch as module
from secondpass.asking.dispatch import ask
from secondpass.asking.gate import Gate
from secondpass.effects import Ask
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger
from secondpass.strategies.graded import Graded


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("blocking", [False, True])
def test_answers_before_the_deadline_are_used(asynchronous, blocking):
    texts = numbered([4, 8, 2, 9, 1, 7])
    release = threading.Event()

    def function(messages):
        if "2 wombats" in shown_in(messages).values():
            release.wait(60)
        return graded(shown_in(messages))

    async def coroutine(messages):
        if "2 wombats" in shown_in(messages).values():
            await asyncio.sleep(60)
        return graded(shown_in(messages))

    def ranking_within(deadline):
        method = Graded(function if blocking else coroutine, batch_size=2)
        reranker = Reranker(method, limits={"deadline": deadline}, log_level="debug")
        return ranked_by(reranker, asynchronous, texts)

    ranking = within_deadlines(
        ranking_within,
        lambda ranking: [issue.positions for issue in ranking.report.issues] == [(2, 3)],
    )
    release.set()
    assert ranking.order == (1, 5, 0, 4, 2, 3)
    assert [item.status for item in ranking] == ["scored"] * 4 + ["unjudged"] * 2
    (issue,) = ranking.report.issues
    assert issue.positions == (2, 3)
    # The timeout of the request ends at the same time; either may come first.
    assert issue.code in {"deadline", "timeout"}


def run_ask(model, ledger, *questions):
    async def act():
        return await ask(Ask(model, questions), ledger, Gate(8))

    return asyncio.run(act())


def test_expired_ledger_asks_nothing():
    model = ScriptedService("yes")
    ledger = Ledger(Limits(deadline=5), time.perf_counter() - 60, rounds=3, pairs=7)
    answers = run_ask(model, ledger, question(), question())
    for answer in answers:
        assert (answer.value, answer.error.code, answer.troubles) == (None, "deadline", ())
        assert str(answer.error) == "the deadline of 5 s passed before this was answered"
    assert model.prompts == []
    assert (ledger.rounds, ledger.pairs, ledger.calls) == (4, 7, 0)


def test_unanswered_questions_keep_their_issues(monkeypatch):
    class Clock(Ledger):
        """Has time left until the second attempt hangs."""

        seconds_left = property(lambda _: 0.0 if len(model.prompts) == 2 else 0.01)

    class Hanging(ScriptedService):
        async def complete(self, prompt):
            if self.prompts:
                self.prompts.append(prompt)
                await asyncio.sleep(60)
            return await super().complete(prompt)

    async def without_timeout(work, _seconds):
        return await work

    monkeypatch.setattr(module, "with_timeout", without_timeout)
    model = Hanging(ADAPTED)
    (answer,) = run_ask(model, Clock(), question())
    assert answer.error.code == "deadline"
    assert [issue.code for issue in answer.troubles] == ["parameter_refused"]


KEPT = "the deadline of 1000 s, of which 200 s are kept for other methods, passed before this was"


@pytest.mark.parametrize("asked", [False, True])
def test_time_kept_for_a_fallback_is_not_for_questions(asked):
    """A question in progress is given up, and no other is asked."""

    class Ageing(ScriptedService):
        async def complete(self, prompt):
            await super().complete(prompt)
            ledger.started -= 900
            raise TimeoutError

    ledger = Ledger(Limits(deadline=1000))
    ledger.keep_time(last=False)
    ledger.started -= 0 if asked else 900
    (answer,) = run_ask(Ageing("yes"), ledger, question())
    assert (answer.error.code, str(answer.error)) == ("deadline", f"{KEPT} answered")
    assert ledger.questions == asked
    assert ledger.limits.deadline - ledger.seconds > 40

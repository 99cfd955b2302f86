"""The deadline of a ranking."""

import asyncio
import threading
import time

import pytest

from fakes import Model, always, graded, numbered, shown_in, within_deadlines
from scripted_services import ADAPTED, ScriptedService, after, question
from secondpass import Reranker
from secondpass.asking import dispatch as module
from secondpass.asking.dispatch import ask
from secondpass.asking.gate import Gate
from secondpass.effects import Ask
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger
from secondpass.strategies.graded import Graded


def rank(reranker, asynchronous, texts):
    if asynchronous:
        return asyncio.run(reranker.arerank("q", texts))
    return reranker.rerank("q", texts)


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
        return rank(reranker, asynchronous, texts)

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


@pytest.mark.parametrize("asynchronous", [False, True])
def test_no_answer_by_the_deadline(asynchronous):
    reranker = Reranker(
        Graded(Model(graded, seconds=60)), limits={"deadline": 0.1}, log_level="debug"
    )
    ranking = rank(reranker, asynchronous, numbered([1, 2]))
    assert (ranking.report.status, ranking.order) == ("unchanged", (0, 1))
    assert {issue.code for issue in ranking.report.issues} <= {"deadline", "timeout"}
    assert ranking.report.usage.input_tokens is None


def test_the_deadline_covers_pauses():
    model = Model(always(after(0.3)))
    reranker = Reranker(Graded(model), limits={"deadline": 0.5, "retries": 9}, log_level="debug")
    ranking = reranker.rerank("q", numbered([1, 2]))
    assert ranking.report.status == "unchanged"
    assert len(model.prompts) <= 2


def test_the_deadline_covers_waiting_for_a_slot():
    def ranking_within(deadline):
        method = Graded(Model(graded, seconds=deadline / 3), batch_size=1)
        limits = {"deadline": deadline, "concurrency": 1}
        return Reranker(method, limits=limits, log_level="debug").rerank("q", numbered(range(10)))

    ranking = within_deadlines(ranking_within, lambda ranking: ranking.report.status == "partial")
    assert ranking.report.status == "partial"
    assert 1 <= sum(item.status == "scored" for item in ranking) <= 3


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_ranking_has_its_own_deadline(asynchronous):
    """Eight rankings take turns, and each takes a third of the time that it has."""
    requests = [(f"query {index}", numbered([1, 2])) for index in range(8)]

    def statuses_within(deadline):
        limits = {"deadline": deadline, "concurrency": 1}
        reranker = Reranker(Graded(Model(graded, seconds=deadline / 3)), limits=limits)
        if asynchronous:
            rankings = asyncio.run(reranker.arerank_many(requests))
        else:
            rankings = reranker.rerank_many(requests)
        return [ranking.report.status for ranking in rankings]

    assert within_deadlines(statuses_within, lambda statuses: set(statuses) == {"ok"}) == ["ok"] * 8


def expired_ledger(**settings):
    """A ledger whose time has passed, unless it starts its clock again."""
    return Ledger(Limits(deadline=5), time.perf_counter() - 60, **settings)


def run_ask(model, ledger, *questions):
    async def act():
        return await ask(Ask(model, questions), ledger, Gate(8))

    return asyncio.run(act())


def test_expired_ledger_asks_nothing():
    model, ledger = ScriptedService("yes"), expired_ledger(rounds=3, pairs=7)
    answers = run_ask(model, ledger, question(), question())
    for answer in answers:
        assert (answer.value, answer.error.code, answer.troubles) == (None, "deadline", ())
        assert str(answer.error) == "the deadline passed before this was answered"
    assert model.prompts == []
    assert (ledger.rounds, ledger.pairs, ledger.calls) == (4, 7, 0)


def test_waiting_ledger_starts_with_its_first_slot():
    ledger = expired_ledger(waiting=True)
    (answer,) = run_ask(ScriptedService("yes"), ledger, question())
    assert answer.value == "yes"
    assert not ledger.waiting


def test_counts_add_up():
    ledger = Ledger(rounds=3, pairs=7)
    run_ask(ScriptedService("yes"), ledger, question(), question())
    assert (ledger.rounds, ledger.pairs) == (4, 13)
    assert (ledger._question_rounds, ledger._question_seconds) == (1, pytest.approx(15, abs=15))


def test_expired_while_it_waited_for_a_slot():
    async def act():
        pending = module.PendingQuestion(
            ScriptedService("yes"), question(), expired_ledger(), Gate(1).slots
        )
        return await pending.answer()

    answer = asyncio.run(act())
    assert answer.error.code == "deadline"
    assert str(answer.error) == "the deadline passed before this was asked"


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


WAITS = {
    # limits, settings of the ledger, whether there is a fallback; the first wait for all questions
    "unlimited": ({}, {}, False, None),
    "limited": ({"deadline": 1000}, {}, False, pytest.approx(1000, abs=60)),
    "with a fallback": ({"deadline": 1000}, {}, True, pytest.approx(800, abs=60)),
    "unlimited, with a fallback": ({}, {}, True, None),
    "not started": ({"deadline": 1000}, {"waiting": True}, False, 0.05),
    "unlimited and not started": ({}, {"waiting": True}, False, None),
}


@pytest.mark.parametrize(("limits", "settings", "fallback", "expected"), WAITS.values(), ids=WAITS)
def test_waits_until_time_is_over(limits, settings, fallback, expected, monkeypatch):
    waits = []
    wait = asyncio.wait

    async def spy(tasks, timeout=None):
        waits.append(timeout)
        return await wait(tasks, timeout=timeout)

    monkeypatch.setattr(module.asyncio, "wait", spy)
    ledger = Ledger(Limits(**limits), **settings)
    ledger.keep_time(last=not fallback)
    run_ask(ScriptedService("yes"), ledger, question())
    assert waits[0] == expected


KEPT = "the deadline, less the time kept for other methods, passed before this was"


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


def test_timeout_at_the_end_is_final():
    class Ageing(ScriptedService):
        async def complete(self, prompt):
            ledger.started -= 3600
            return await super().complete(prompt)

    ledger = Ledger(Limits(deadline=1000))
    (answer,) = run_ask(Ageing(TimeoutError()), ledger, question())
    assert answer.error.code == "deadline"
    assert str(answer.error) == "the deadline passed before this was answered"
    assert ledger.questions == 1

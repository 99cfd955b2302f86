"""Limits of calls, tokens and cost; what is charged; reported usage."""

import asyncio

import pytest

from fakes import Model, always, graded, numbered, shown_in
from scripted_services import BUSY, DOWN, NOT_INSTALLED, ScriptedService, ask_all, question
from secondpass import ConfigurationError, Reranker
from secondpass.asking.dispatch import ask
from secondpass.asking.gate import Gate
from secondpass.effects import Ask, Completion
from secondpass.errors import LLMError, MethodError
from secondpass.limits import Prices
from secondpass.ranking.ledger import Ledger
from secondpass.strategies.graded import Graded


class Reporting(Model):
    async def complete(self, prompt):
        completion = await super().complete(prompt)
        return Completion(completion.text, input_tokens=80, output_tokens=20)


# ---------------------------------------------------------------------- the budget


def test_calls_run_out():
    model = Reporting(graded)
    texts = numbered([4, 8, 2, 9, 1, 7])
    ranking = Reranker(Graded(model, batch_size=2), limits={"calls": 2}, log_level="debug").rerank(
        "q", texts
    )
    assert len(model.prompts) == ranking.report.usage.calls == 2
    assert ranking.order == (3, 1, 0, 2, 4, 5)
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("budget", (4, 5))
    assert issue.message == "all 2 calls of this ranking were made"
    assert ranking.report.usage.input_tokens == 160


@pytest.mark.parametrize("limit", ["tokens", "cost"])
def test_budget_refuses_large_questions(limit):
    texts = [f"{number} {'wombats ' * 500}" for number in (4, 8, 2)]
    model = Reporting(graded, prices=Prices(1, 1))
    # Each question has about 1,200 tokens; a million of them are a unit of money.
    limits = {limit: 1500 if limit == "tokens" else 0.0015, "concurrency": 1}
    method = Graded(model, batch_size=1)
    ranking = Reranker(method, limits=limits, log_level="debug").rerank("q", texts)
    # The first reports 100 tokens only, so a second and a third fit in.
    assert len(model.prompts) == 3
    limits = {limit: 1000 if limit == "tokens" else 0.001}
    ranking = Reranker(method, limits=limits, log_level="debug").rerank("q", texts)
    assert len(model.prompts) == 3
    assert ranking.report.status == "unchanged"
    assert ranking.report.issues[0].code == "budget"
    assert ranking.report.usage.calls == 0


def test_parallel_questions_reserve_tokens():
    texts = [f"{number} {'wombats ' * 500}" for number in (4, 8, 2)]
    model = Reporting(graded, seconds=0.05)
    ranking = Reranker(
        Graded(model, batch_size=1), limits={"tokens": 2800}, log_level="debug"
    ).rerank("q", texts)
    assert len(model.prompts) == 2
    assert ranking.report.status == "partial"


CHARGED = ["content_filter", "bad_response", "response_too_long", "reply_too_short"]
NOT_CHARGED = ["server_error", "bad_request", "authentication", "too_long", "llm_failed", "timeout"]


@pytest.mark.parametrize("code", [*CHARGED, *NOT_CHARGED])
def test_which_failures_are_charged(code):
    def ask_three(**limits):
        replies = [Completion("yes", False, 10, 5), LLMError("failed", code), "yes"]
        model = ScriptedService(*replies)
        model.prices = Prices(1, 1)
        return ask_all(model, question(), question(), question(), width=1, **limits)

    # A question is estimated at 15 tokens; the first took them, and 40 are no room for three.
    for limits in ({"tokens": 40}, {"cost": 40e-6}):
        answers, ledger = ask_three(**limits)
        last = "budget" if code in CHARGED else None
        assert [answer.error and answer.error.code for answer in answers] == [None, code, last]
        assert ledger.questions == (2 if code in CHARGED else 3)
    answers, ledger = ask_three()
    assert answers[2].value == "yes"
    model = ScriptedService(Completion("yes", False, 10, 5), LLMError("failed", code))
    model.prices = Prices(1, 1)
    _, ledger = ask_all(model, question(), question(), width=1)
    usage = ledger.usage()
    unreported = (None, None, None)
    reported = (10, 5, pytest.approx(15e-6))
    got = (usage.input_tokens, usage.output_tokens, usage.cost)
    assert got == (unreported if code in CHARGED else reported)


def test_the_tokens_of_a_reply_that_is_not_used_are_charged():
    for tokens, usage in (((7, 16), (17, 21)), ((7, None), (None, None))):
        error = LLMError("failed", "reply_too_short", adapted=True, tokens=tokens)
        model = ScriptedService(error.with_message("more"), Completion("yes", False, 10, 5))
        answers, ledger = ask_all(model, question(), width=1)
        assert answers[0].value == "yes"
        assert (ledger.usage().input_tokens, ledger.usage().output_tokens) == usage


NOT_SENT = LLMError("there is no key", "no_key", sent=False)

ESTIMATED = (15, 1, 3)
BOOKED = {
    # what the service does; tokens that are charged, questions and pairs that count
    "reported": (Completion("yes", False, 7, 2), 9, 1, 3),
    "reported in part": (Completion("yes", False, None, 2), 12, 1, 3),
    "unreported": ("yes", *ESTIMATED),
    "timeout": (TimeoutError(), *ESTIMATED),
    "foreign error": (ValueError(), *ESTIMATED),
    "no completion": (b"yes", *ESTIMATED),
    "content filter": (LLMError("filtered", "content_filter"), *ESTIMATED),
    "refused": (DOWN, 0, 1, 3),
    "method error": (MethodError("mine", "mine"), 0, 1, 3),
    "not sent": (NOT_SENT, 0, 0, 0),
    "not installed": (NOT_INSTALLED, 0, 0, 0),
}


def charges(ledger):
    spent, reserved = ledger._spent, ledger._reserved
    assert spent.cost == pytest.approx(spent.tokens / 1e6)
    assert (reserved.tokens, reserved.cost) == (0, pytest.approx(0))
    return spent.tokens, ledger.questions, ledger.pairs


@pytest.mark.parametrize(("replies", "tokens", "requests", "pairs"), BOOKED.values(), ids=BOOKED)
def test_every_end_is_booked(replies, tokens, requests, pairs):
    model = ScriptedService(replies)
    model.prices = Prices(1, 1)
    _, ledger = ask_all(model, question(), retries=0)
    assert charges(ledger) == (tokens, requests, pairs)
    assert ledger.calls == ledger.questions
    # Sent before, it counts once and its candidates too.
    model = ScriptedService(BUSY, replies)
    model.prices = Prices(1, 1)
    _, ledger = ask_all(model, question(), retries=1)
    assert charges(ledger) == (tokens, requests + 1, 3)


def test_cancellation_charges_the_estimate():
    model = Model(graded, seconds=60, prices=Prices(1, 1))
    ledger = Ledger()

    async def act():
        task = asyncio.ensure_future(ask(Ask(model, [question()]), ledger, Gate(1)))
        while not model.under_way:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while model.under_way:
            await asyncio.sleep(0.001)

    asyncio.run(act())
    assert charges(ledger) == (15, 1, 0)


def test_cost_limit_needs_prices():
    with pytest.raises(ConfigurationError, match=r"limits.cost: .*without the prices of 'model'"):
        Reranker(Graded(Model()), limits={"cost": 0.1})
    with pytest.raises(ConfigurationError, match=r"limits.cost"):
        Reranker("lexical", fallback=[Graded(Model())], limits={"cost": 0.1})
    Reranker(Graded(Model(prices=Prices(1, 1))), limits={"cost": 0.1})
    Reranker("lexical", limits={"cost": 0.1})


def test_budget_covers_the_fallback():
    broken = Model(always("no"), name="broken")
    helping = Model(graded)
    ranking = Reranker(
        Graded(broken), fallback=[Graded(helping)], limits={"calls": 2}, log_level="debug"
    ).rerank("q", numbered([1, 2]))
    assert (len(broken.prompts), len(helping.prompts)) == (2, 0)
    assert ranking.report.status == "unchanged"
    assert [issue.code for issue in ranking.report.issues] == ["reply_refused", "budget"]


TOKENS = [
    ([(80, 20), (80, 20), (80, 20)], (240, 60)),
    ([(80, 20), (None, None), (80, 20)], (None, None)),
    ([(80, None), (80, 20), (80, 20)], (None, None)),
    ([(None, None)] * 3, (None, None)),
    ([(0, 0)] * 3, (0, 0)),
]


# ---------------------------------------------------------------------- usage


@pytest.mark.parametrize(("tokens", "sums"), TOKENS)
def test_tokens_and_cost_are_summed(tokens, sums):
    reported = iter(tokens)

    class Some(Model):
        async def complete(self, prompt):
            return Completion((await super().complete(prompt)).text, False, *next(reported))

    reranker = Reranker(Graded(Some(prices=Prices(2, 10)), batch_size=1))
    usage = reranker.rerank("q", numbered([1, 2, 3])).report.usage
    assert (usage.input_tokens, usage.output_tokens) == sums
    if sums == (240, 60):
        assert usage.cost == pytest.approx((240 * 2 + 60 * 10) / 1e6)
    elif sums == (0, 0):
        assert usage.cost == 0.0
    else:
        assert usage.cost is None


def test_unusable_replies_are_charged():
    model = Reporting([always("no"), graded])
    usage = Reranker(Graded(model), log_level="debug").rerank("q", ["1 a"]).report.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 160, 40)


@pytest.mark.parametrize("tokens", ["12", float("nan"), [1], 10**13, 10**400])
def test_invalid_token_counts_are_ignored(tokens):
    def function(messages):
        return Completion(graded(shown_in(messages)), input_tokens=tokens, output_tokens=5)

    ranking = Reranker(Graded(function), log_level="debug").rerank("q", numbered([1, 2]))
    assert ranking.order == (1, 0)
    assert ranking.report.usage.input_tokens is None

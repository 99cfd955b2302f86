"""Limits of calls, tokens and cost; what is charged; reported usage."""

import asyncio

import pytest

from fakes import Model, graded
from scripted_services import BUSY, DOWN, NOT_INSTALLED, ScriptedService, ask_all, question
from secondpass import ConfigurationError, Reranker
from secondpass.asking.dispatch import ask
from secondpass.asking.gate import Gate
from secondpass.effects import Ask
from secondpass.errors import LLMError, MethodError
from secondpass.limits import Prices
from secondpass.questions import Completion
from secondpass.ranking.ledger import Ledger
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded

# ---------------------------------------------------------------------- the budget


CHARGED = ["content_filter", "bad_response", "response_too_long", "reply_too_short"]
NOT_CHARGED = ["server_error", "bad_request", "authentication", "too_long", "llm_failed", "timeout"]


@pytest.mark.parametrize("code", [*CHARGED, *NOT_CHARGED])
def test_which_failures_are_charged(code):
    def ask_three(**limits):
        reply = Completion("yes", False, 10, 5)
        model = ScriptedService(reply, LLMError("failed", code), reply)
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
    tokens = (None, None) if code in CHARGED else (20, 10)
    assert (ledger.usage().input_tokens, ledger.usage().output_tokens) == tokens


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
    with pytest.raises(ConfigurationError, match=r"limits.cost"):
        Reranker(Cascade([{"method": "lexical"}, {"method": Graded(Model())}]), limits={"cost": 1})
    Reranker(Graded(Model(prices=Prices(1, 1))), limits={"cost": 0.1})
    Reranker("lexical", limits={"cost": 0.1})

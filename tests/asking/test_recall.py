"""Only what the response cache does not know is asked."""

import asyncio
from dataclasses import replace

import pytest

from scripted_services import DOWN, ScriptedService, question
from secondpass.asking.dispatch import recall_or_ask
from secondpass.asking.gate import Gate
from secondpass.asking.response_cache import ResponseCache
from secondpass.effects import Ask
from secondpass.limits import Limits
from secondpass.questions import Recall
from secondpass.ranking.ledger import Ledger


class Keyed(ScriptedService):
    cache_key = "scripted"


def stored(text):
    return replace(question(text=text), recall=Recall(lambda: text, str, str))


@pytest.fixture
def cache(tmp_path):
    opened = ResponseCache(str(tmp_path / "answers"))
    yield opened
    opened.close()


def asked(cache, *texts, replies=("yes",), make=stored):
    """The answers to questions with these texts, the prompts that were sent, and the ledger."""
    service, ledger = Keyed(*replies), Ledger(Limits(retries=0), cache=cache)
    effect = Ask(service, [make(text) for text in texts])
    answers = asyncio.run(recall_or_ask(effect, ledger, Gate(1)))
    sent = [prompt.turns[0].text for prompt in service.prompts]
    return [answer.value for answer in answers], sent, ledger


def test_without_a_cache_all_is_asked():
    values, sent, ledger = asked(None, "a", "a")
    assert (values, sent, ledger.questions) == (["yes", "yes"], ["a", "a"], 2)


def test_what_is_stored_is_not_asked_and_takes_nothing(cache):
    asked(cache, "b", replies=("old",))
    values, sent, ledger = asked(cache, "a", "b", "c", replies=("first", "second"))
    assert values == ["first", "old", "second"]
    assert sent == ["a", "c"]
    assert (ledger.questions, ledger.rounds, ledger.cached) == (2, 1, 1)
    values, sent, ledger = asked(cache, "c", "b", "a")
    assert (values, sent) == (["second", "old", "first"], [])
    assert (ledger.questions, ledger.rounds, ledger.calls, ledger.cached) == (0, 0, 0, 3)


def test_equal_questions_of_a_round_are_asked_once(cache):
    values, sent, ledger = asked(cache, "a", "b", "a", replies=("first", "second"))
    assert (values, sent) == (["first", "second", "first"], ["a", "b"])
    assert (ledger.questions, ledger.cached) == (2, 1)


def test_errors_are_not_stored(cache):
    values, sent, ledger = asked(cache, "a", "a", replies=(DOWN,))
    assert (values, sent, ledger.cached) == ([None, None], ["a"], 0)
    assert asked(cache, "a")[:2] == (["yes"], ["a"])


def failing(_value):
    raise RuntimeError("broken")


OWN = {
    # the key, dump and load of a question; the report
    "without a key": (None, "'scripted' are not stored: its method does not say"),
    "dump raises": (Recall(lambda: 1, failing, str), "'scripted' are not stored: dump raised"),
    "no value of JSON": (Recall(lambda: 1, object, str), "dump raised TypeError"),
    "nothing to dump": (Recall(lambda: 1, lambda _: None, str), None),
    "load raises": (Recall(lambda: 1, str, failing), None),
}


@pytest.mark.parametrize(("recall", "message"), OWN.values(), ids=OWN)
def test_questions_that_cannot_be_stored_are_asked_each_time(cache, recall, message):
    for _ in range(2):
        values, sent, ledger = asked(
            cache, "a", "a", make=lambda text: replace(question(text=text), recall=recall)
        )
        # Without a key they are not known to be equal.
        assert (values, sent) == (["yes", "yes"], ["a"] * (2 if recall is None else 1))
        codes = [] if message is None else ["not_cached"]
        assert [issue.code for issue in ledger.issues] == codes
        assert message is None or message in ledger.issues[0].message

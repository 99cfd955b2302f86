"""Halves of questions that were refused because of their content."""

import math

import pytest

from fakes import Model, always, graded, numbered, play, shown_in, task_of
from secondpass import Reranker
from secondpass.errors import BudgetError, DeadlineError, LLMError, ReplyError
from secondpass.questions import Answer
from secondpass.strategies.graded import Graded

FILTERED = LLMError("blocked by a content filter", "content_filter")
COUNT = 20


def texts_with(*bad, count=COUNT):
    """Texts whose numbers are their places modulo 10; those at ``bad`` are marked."""
    texts = numbered([index % 10 for index in range(count)])
    return [f"{text} BAD" if index in bad else text for index, text in enumerate(texts)]


def refusing(outcome):
    """Grades passages, unless one of them is marked: then it replies or raises ``outcome``."""

    def reply(passages):
        return outcome if any("BAD" in text for text in passages.values()) else graded(passages)

    return reply


def rank(reply, texts, limits=None, **settings):
    settings = {"type": "graded", "llm": Model([reply]), **settings}
    return Reranker(settings, limits=limits).rerank("q", texts, depth=None)


def unjudged(ranking):
    return sorted(item.position for item in ranking if item.status == "unjudged")


@pytest.mark.parametrize("bad", [0, 7, 12, 19])
@pytest.mark.parametrize(
    ("outcome", "before"),
    [(FILTERED, 1), ("no JSON", 2), (LLMError("long", "too_long", too_long=True), 1)],
    ids=["filtered", "unreadable", "too long"],
)
def test_one_refused_passage_costs_only_its_own_judgement(outcome, before, bad):
    ranking = rank(refusing(outcome), texts_with(bad, count=100))
    assert unjudged(ranking) == [bad]
    report = ranking.report
    assert report.status == "partial"
    code = "reply_refused" if isinstance(outcome, str) else outcome.code
    assert {issue.code: issue.positions for issue in report.issues} == {
        "asked_again": (),
        code: (bad,),
    }
    more = report.usage.calls - 4 - before
    assert 0 < more <= 2 * math.ceil(math.log2(COUNT))
    assert report.usage.repairs == more + (isinstance(outcome, str))
    assert report.usage.rounds <= 1 + math.ceil(math.log2(COUNT))


OTHERS = {
    "server error": LLMError("it failed", "server_error"),
    "rate limit": LLMError("it failed", "rate_limited"),
    "timeout": LLMError("it failed", "timeout"),
    "connection": LLMError("it failed", "connection"),
    "key": LLMError("it failed", "authentication"),
    "bad request": LLMError("it failed", "bad_request"),
    "budget": BudgetError("it failed"),
    "deadline": DeadlineError("it failed"),
    "no log probabilities": ReplyError("it failed", "no_logprobs", repairable=False),
}


@pytest.mark.parametrize("error", OTHERS.values(), ids=OTHERS)
def test_other_errors_are_not_about_the_content(error):
    def answer(question):
        bad = any("BAD" in text for text in shown_in(question.request).values())
        return Answer(error=error) if bad else Answer(question.assumed)

    judgement, asks = play(Graded(Model()).judge(task_of(texts_with(5, count=40))), answer)
    assert len(asks) == 1
    assert judgement.unjudged == frozenset(range(20))


def test_it_is_switched_off_with_repairs():
    ranking = rank(refusing(FILTERED), texts_with(5, count=40), {"repair": 0})
    assert unjudged(ranking) == [*range(20)]
    assert (ranking.report.usage.calls, ranking.report.usage.repairs) == (2, 0)


@pytest.mark.parametrize("batches", [1, 5, 6, 50])
@pytest.mark.parametrize("reply", ["no JSON", FILTERED], ids=["unreadable", "filtered"])
def test_a_model_that_answers_nothing_is_soon_given_up(reply, batches):
    ranking = rank(always(reply), texts_with(count=COUNT * batches))
    assert ranking.report.status == "unchanged"
    before = (2 if isinstance(reply, str) else 1) * batches
    assert ranking.report.usage.calls <= before + 2 * math.ceil(math.log2(COUNT))


def test_parts_are_neither_repaired_nor_shortened_again():
    seen = []

    def reply(passages):
        seen.append(len(passages))
        return "no JSON" if any("BAD" in text for text in passages.values()) else graded(passages)

    rank(reply, texts_with(0, count=8))
    # The question and its repair; then 4 and 4, 2 and 2, 1 and 1.
    assert sorted(seen) == [1, 1, 2, 2, 4, 4, 8, 8]

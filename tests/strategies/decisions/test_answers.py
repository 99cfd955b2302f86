"""What is read: probabilities, refusals, odd answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fake_provider as fake
from decision_answers import NUMBERS, answer, probability, shown, statements
from fake_provider import Step, http
from rankings import codes, scores

openai = pytest.importorskip("openai")

pytestmark = pytest.mark.skipif(
    not hasattr(openai.AsyncOpenAI, "decisions"), reason="this SDK has no scoring calls yet"
)


def declined(which: Callable[[int], bool]) -> Step:
    """No decision about some of the documents."""

    def change(reply: Any, request: fake.Request) -> None:
        names = [name for index, name in enumerate(statements(request)) if which(index)]
        if request.flavour == "google":
            for name in names:
                del reply["answers"][name]
            return
        reply["answers"] = [
            {"type": "refusal", "name": one["name"]} if one["name"] in names else one
            for one in reply["answers"]
        ]

    return answer(change)


VALUES = [
    (0.0, 0.0),
    (1, 1.0),
    (1.00001, 1.0),
    (float("nan"), None),
    (float("inf"), None),
    (None, None),
    ([0.5], None),
    ({"p": 0.5}, None),
    ("high", None),
]


@pytest.mark.parametrize("value", [1.5, -0.2, 7, 1e300])
def test_other_scale_refuses_all_batches(value, make, provider):
    provider.play(probability(value))
    ranking = make(batch_size=2).rerank("q", [*NUMBERS, "7 d"])
    assert ranking.report.status == "unchanged"
    assert {issue.code for issue in ranking.report.issues} == {"score_out_of_range"}
    assert ranking.order == (0, 1, 2, 3)


@pytest.mark.parametrize(("value", "read"), VALUES)
def test_probabilities(value, read, make, provider):
    provider.play(probability(value))
    ranking = make().rerank("q", NUMBERS)
    assert scores(ranking) == {0: 0.3, 1: read, 2: 0.5}
    if read is None:
        assert ranking.report.status == "partial"
        assert [issue.positions for issue in ranking.report.issues] == [(1,)]
        assert ranking[-1].position == 1
    else:
        assert ranking.report.status == "ok"


@pytest.mark.parametrize("value", [1.5, float("nan")])
def test_unusable_is_not_declined(value, make, provider):
    provider.play(probability(value))
    assert "declined" not in codes(make().rerank("q", NUMBERS))


def test_declined_documents_are_unjudged(make, rank, provider):
    provider.play(declined(lambda index: index == 1))
    ranking = rank(make(), "q", NUMBERS)
    assert scores(ranking) == {0: 0.3, 1: None, 2: 0.5}
    assert ranking.order == (2, 0, 1)
    assert ranking[-1].status == "unjudged"
    assert ranking[-1].final_score is None
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("declined", (1,))
    assert ranking.report.status == "partial"
    assert ranking.report.usage.input_tokens == 70


def test_all_is_declined(make, rank, provider):
    provider.play(declined(lambda index: True))
    ranking = rank(make(limits={"retries": 2}), "q", NUMBERS)
    assert ranking.report.status == "unchanged"
    assert ranking.order == (0, 1, 2)
    assert codes(ranking) == {"content_filter"}
    assert len(provider.requests) == ranking.report.usage.calls == 1
    assert ranking.report.usage.input_tokens == 70  # it was paid for


def test_a_batch_is_declined(make, provider):
    def step(request):
        hit = any(text.startswith("9") for text in shown(request).values())
        return (declined(lambda index: True) if hit else answer())(request)

    provider.play(step)
    ranking = make(batch_size=1).rerank("q", NUMBERS)
    assert scores(ranking) == {0: 0.3, 1: None, 2: 0.5}
    assert {item.position: item.status for item in ranking}[1] == "unjudged"
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("content_filter", (1,))


def set_answers(make_answers: Callable[[Any], Any]) -> Callable[[Any, fake.Request], None]:
    return lambda reply, request: reply.update(answers=make_answers(reply["answers"]))


OF_OPENAI = {
    "one too few": set_answers(lambda answers: answers[:-1]),
    "one too many": set_answers(lambda answers: [*answers, answers[0]]),
    "none": set_answers(lambda answers: []),
    "null": set_answers(lambda answers: None),
    "a mapping": set_answers(lambda answers: {item["name"]: item for item in answers}),
    "no answers": lambda reply, request: reply.pop("answers"),
}


@pytest.mark.parametrize("whose", ["openai"], indirect=True)
@pytest.mark.parametrize("name", OF_OPENAI)
def test_another_number_of_answers(name, make, rank, provider):
    """They belong to the questions by their order alone, so none can be used."""
    provider.play(answer(OF_OPENAI[name]))
    ranking = rank(make(), "q", NUMBERS)
    assert (ranking.order, codes(ranking)) == ((0, 1, 2), {"bad_response"})
    assert len(provider.requests) == 1


@pytest.mark.parametrize("whose", ["openai"], indirect=True)
def test_answers_by_other_names(make, provider):
    def swapped(reply, request):
        first, second = reply["answers"][:2]
        first["name"], second["name"] = second["name"], first["name"]

    provider.play(answer(swapped))
    assert scores(make().rerank("q", NUMBERS)) == {0: None, 1: None, 2: 0.5}

    def nameless(reply, request):
        for one in reply["answers"]:
            one["name"] = None

    provider.play(answer(nameless))
    assert make().rerank("q", NUMBERS).order == (1, 2, 0)


@pytest.mark.parametrize("whose", ["google"], indirect=True)
@pytest.mark.parametrize("value", [None, [], "no", 5])
def test_no_answers(value, make, provider):
    provider.play(answer(lambda reply, request: reply.update(answers=value)))
    ranking = make().rerank("q", NUMBERS)
    assert (ranking.order, codes(ranking)) == ((0, 1, 2), {"bad_response"})


@pytest.mark.parametrize("whose", ["google"], indirect=True)
def test_odd_answers(make, provider):
    def more(reply, request):
        first = next(iter(reply["answers"]))
        reply["answers"]["zork"] = {"type": "noul", "noul": 1.0, "confidence": 1.0}
        reply["answers"][first] = {"type": "verdict", "verdict": 1.0}

    provider.play(answer(more))
    assert scores(make().rerank("q", NUMBERS)) == {0: None, 1: 0.9, 2: 0.5}


@pytest.mark.parametrize("whose", ["google"], indirect=True)
def test_the_input_is_blocked(make, rank, provider):
    provider.play(lambda r: [http(200, {"prompt_feedback": {"block_reason": "safety"}})])
    ranking = rank(make(limits={"retries": 2}), "q", NUMBERS)
    assert codes(ranking) == {"content_filter"}
    assert len(provider.requests) == 5  # 3, 1 and 2, 1 and 1


ODD_BODIES = {
    "an empty mapping": b"{}",
    "null": b"null",
    "a list": b"[]",
    "a number": b"5",
    "a string": b'"no"',
    "nothing": b"",
    "prose": b"the first is best: 0.9",
    "half of it": b'{"answers": [',
    "invalid UTF-8": b"\xff\xfe" * 9,
    "deep nesting": b"[" * 10_000,
}


@pytest.mark.parametrize("name", ODD_BODIES)
def test_odd_bodies(name, make, provider):
    provider.play(fake.raw(http(200, ODD_BODIES[name])))
    ranking = make(limits={"retries": 1}).rerank("q", NUMBERS)
    assert (ranking.order, codes(ranking)) == ((0, 1, 2), {"bad_response"})
    assert len(provider.requests) == ranking.report.usage.calls == 1
    assert ranking.report.usage.input_tokens is None


@pytest.mark.parametrize("usage", [None, {}, {"total_tokens": 5}, "5", []])
def test_missing_usage(usage, make, provider):
    provider.play(answer(lambda reply, request: reply.update(usage=usage)))
    ranking = make(prices={"input": 1.0, "output": 1.0}).rerank("q", NUMBERS)
    assert ranking.order == (1, 2, 0)
    reported = ranking.report.usage
    assert (reported.input_tokens, reported.output_tokens, reported.cost) == (None, None, None)


def test_prices(make):
    ranking = make(prices={"input": 10.0, "output": 100.0}).rerank("q", NUMBERS)
    assert ranking.report.usage.cost == pytest.approx((70 * 10 + 7 * 100) / 1e6)

"""What is read: probabilities, distributions, declined and odd answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import fake_provider as fake
from decision_answers import (
    NUMBERS,
    answer,
    answers_of,
    each_answer,
    in_turn,
    probabilities,
    probability,
    questions,
    right,
    shown,
)
from fake_provider import Step, http
from rankings import codes, scores

QUESTIONS = ("graded", "yes_no")


def without(which: Callable[[int], bool]) -> Step:
    """No answer about some of the documents; a refusal where the API has one."""

    def change(reply: Any, request: fake.Request) -> None:
        names = [name for index, name in enumerate(questions(request)) if which(index)]
        if request.flavour != "openai":
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
    (True, None),
    ("0.9", None),
    ([0.5], None),
    ({"p": 0.5}, None),
    ("high", None),
]


@in_turn("value", [1.5, -0.2, 7, 1e300])
def test_other_scale_refuses_all_batches(value, make, provider):
    provider.play(probability(value))
    ranking = make(batch_size=2).rerank("q", [*NUMBERS, "7 d"])
    assert ranking.report.status == "unchanged"
    assert {issue.code for issue in ranking.report.issues} == {"score_out_of_range"}
    assert ranking.order == (0, 1, 2, 3)


@in_turn("value, read", VALUES)
def test_probabilities(value, read, make, provider):
    provider.play(probability(value))
    ranking = make().rerank("q", NUMBERS)
    assert scores(ranking) == {0: 0.3, 1: read, 2: 0.5}
    if read is None:
        assert ranking.report.status == "partial"
        (issue,) = ranking.report.issues
        assert (issue.code, issue.positions) == ("score_refused", (1,))
        assert ranking[-1].position == 1
    else:
        assert ranking.report.status == "ok"


DISTRIBUTIONS = {
    "exact": ([0.0, 0.0, 0.5, 0.5], 2.5 / 3),
    "whole numbers": ([0, 0, 0, 1], 1.0),
    "rounded to two decimals": ([0.33, 0.33, 0.33, 0.0], 1 / 3),
    "rounded to a sum above 1": ([0.34, 0.34, 0.33, 0.0], (0.34 + 0.66) / 1.01 / 3),
    "a sum of 0.8": ([0.2, 0.2, 0.2, 0.2], None),
    "a sum of 1.2": ([0.3, 0.3, 0.3, 0.3], None),
    "percentages": ([0, 0, 50, 50], None),
    "below 0": ([-0.5, 0.5, 0.5, 0.5], None),
    "above 1": ([1.5, -0.5, 0.0, 0.0], None),
    "one too few": ([0.5, 0.5, 0.0], None),
    "one too many": ([0.5, 0.5, 0.0, 0.0, 0.0], None),
    "none": ([], None),
    "a boolean": ([False, False, False, True], None),
    "a string": ([0.0, 0.0, "0.5", 0.5], None),
    "null": ([0.0, 0.0, None, 1.0], None),
    "NaN": ([0.0, 0.0, float("nan"), 1.0], None),
}


@in_turn("numbers, read", DISTRIBUTIONS.values())
def test_distributions(numbers, read, make, provider):
    provider.play(probabilities(numbers))
    ranking = make(question="graded").rerank("q", NUMBERS)
    expected = {0: 0.3, 2: 0.5, **({} if read is None else {1: read})}
    assert {k: v for k, v in scores(ranking).items() if v is not None} == pytest.approx(expected)
    assert ranking.report.status == ("partial" if read is None else "ok")
    if read is None:
        (issue,) = ranking.report.issues
        assert (issue.code, issue.positions) == ("score_refused", (1,))


KEYS = {
    "from 1": lambda number: str(int(number) + 1),
    "with spaces": lambda number: f" {number}",
    "two digits": lambda number: f"0{number}",
    "words": lambda number: "abcd"[int(number)],
    "the same": lambda number: "0",
}


@in_turn("name", KEYS)
def test_levels_under_other_names(name, make, provider):
    def change(one):
        stated = one["probabilities"]
        if isinstance(stated, list):
            for row in stated:
                row["label"] = KEYS[name](row["label"])
        else:
            one["probabilities"] = {KEYS[name](key): value for key, value in stated.items()}

    provider.play(each_answer(change))
    ranking = make(question="graded").rerank("q", NUMBERS)
    assert scores(ranking)[1] is None
    assert codes(ranking) == {"score_refused"}


@in_turn("odd", [None, 5, "x", [], {}, [5], [{"label": "0"}], [None] * 4])
def test_odd_distributions(odd, make, provider):
    provider.play(each_answer(lambda one: one.update(probabilities=odd)))
    assert scores(make(question="graded").rerank("q", NUMBERS))[1] is None


def test_rounded_grades_are_ties_in_the_input_order(make, provider):
    """Other distributions of the same expectation, whose sums differ by rounding errors."""
    spread = iter([[0.1, 0.2, 0.3, 0.4], [0.0, 0.3, 0.4, 0.3], [0.15, 0.15, 0.25, 0.45]])
    provider.play(probabilities(lambda _numbers: next(spread), lambda index: True))
    ranking = make(question="graded").rerank("q", NUMBERS)
    assert ranking.order == (0, 1, 2)
    assert len({item.rerank_score for item in ranking}) == 1


@pytest.mark.parametrize("question", QUESTIONS)
@in_turn("kind", ["boolean", "choice", None, 5, ["score"]])
def test_answers_of_another_type(kind, question, make, provider):
    provider.play(each_answer(lambda one: one.update(type=kind)))
    ranking = make(question=question).rerank("q", NUMBERS)
    assert scores(ranking)[1] is None
    assert codes(ranking) == {"score_refused"}


@pytest.mark.parametrize("question", QUESTIONS)
def test_missing_answers_are_unjudged(question, make, rank, provider, shape):
    provider.play(without(lambda index: index == 1))
    ranking = rank(make(question=question), "q", NUMBERS)
    assert scores(ranking) == pytest.approx({0: 0.3, 1: None, 2: 0.5})
    assert ranking.order == (2, 0, 1)
    assert ranking[-1].status == ("unjudged" if shape == "openai" else "backfilled")
    assert ranking[-1].final_score is None
    (issue,) = ranking.report.issues
    code = "declined" if shape == "openai" else "not_in_reply"
    assert (issue.code, issue.positions) == (code, (1,))
    assert ranking.report.status == "partial"
    assert ranking.report.usage.input_tokens == 70


@pytest.mark.parametrize("layout", ["each", "together"])
def test_no_answer_at_all(layout, make, rank, provider, shape):
    provider.play(without(lambda index: True))
    ranking = rank(make(layout=layout, limits={"retries": 2}), "q", NUMBERS)
    assert ranking.report.status == "unchanged"
    assert ranking.order == (0, 1, 2)
    code = "content_filter" if shape == "openai" else "bad_response"
    assert codes(ranking) == {code}
    count = 3 if layout == "each" else 1
    assert len(provider.requests) == ranking.report.usage.calls == count
    assert ranking.report.usage.input_tokens == 70 * count  # it was paid for


@pytest.mark.parametrize("shape", ["openai"], indirect=True)
def test_one_document_is_declined(make, provider):
    def step(request):
        hit = any(text.startswith("9") for text in shown(request).values())
        return (without(lambda index: True) if hit else answer())(request)

    provider.play(step)
    ranking = make(layout="each").rerank("q", NUMBERS)
    assert scores(ranking) == {0: 0.3, 1: None, 2: 0.5}
    assert {item.position: item.status for item in ranking}[1] == "unjudged"
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("content_filter", (1,))


def test_answers_to_other_questions_are_not_used(make, provider, shape):
    def more(reply, _request):
        extra = {**answers_of(reply)[0], "name": "zork"}
        if shape == "openai":
            reply["answers"].append(extra)
        else:
            reply["answers"]["zork"] = extra

    provider.play(answer(more))
    ranking = make().rerank("q", NUMBERS)
    assert (ranking.order, ranking.report.status) == ((1, 2, 0), "ok")
    assert codes(ranking) == {"unknown_label"}


def test_doubled_answers_are_refused(make, provider, shape):
    def step(request):
        reply = right(request)
        if shape == "openai":
            reply["answers"].append({**reply["answers"][1], "probability": 0.1})
            return [http(200, reply)]
        name = list(reply["answers"])[1]
        text = json.dumps(reply)
        second = f'"{name}": {{"type": "noul", "noul": 0.1}}'
        text = text.replace('"answers": {', f'"answers": {{{second}, ', 1)
        return [http(200, text.encode())]

    provider.play(step)
    ranking = make().rerank("q", NUMBERS)
    assert scores(ranking) == {0: 0.3, 1: None, 2: 0.5}
    assert codes(ranking) == {"score_refused"}


@pytest.mark.parametrize("question", QUESTIONS)
def test_doubled_members_of_an_answer_are_refused(question, make, provider, shape):
    def step(request):
        reply = right(request)
        odd = answers_of(reply)[1]
        before = json.dumps(odd)
        member = '"type": "x", '
        if question == "graded" and shape != "openai":
            member = ""
            after = before.replace('"probabilities": {', '"probabilities": {"0": 1.0, ')
        else:
            after = before.replace("{", "{" + member, 1)
        return [http(200, json.dumps(reply).replace(before, after).encode())]

    provider.play(step)
    ranking = make(question=question).rerank("q", NUMBERS)
    assert scores(ranking)[1] is None
    assert codes(ranking) == {"score_refused"}


def test_doubled_answers_as_a_whole(make, provider):
    def step(request):
        text = json.dumps(right(request))
        return [http(200, ('{"answers": {}, ' + text[1:]).encode())]

    provider.play(step)
    (issue,) = make().rerank("q", NUMBERS).report.issues
    assert issue.code == "bad_response"
    assert "it has 'answers' twice" in issue.message


@pytest.mark.parametrize("shape", ["openai"], indirect=True)
def test_doubled_members_of_a_row_are_refused(make, provider):
    def step(request):
        text = json.dumps(right(request))
        return [http(200, text.replace('{"label": ', '{"label": "9", "label": ').encode())]

    provider.play(step)
    assert codes(make(question="graded").rerank("q", NUMBERS)) == {"bad_response"}


def set_answers(make_answers: Callable[[Any], Any]) -> Callable[[Any, fake.Request], None]:
    return lambda reply, request: reply.update(answers=make_answers(reply["answers"]))


@pytest.mark.parametrize("shape", ["openai"], indirect=True)
def test_answers_by_their_order(make, provider):
    def swapped(reply, _request):
        first, second = reply["answers"][:2]
        first["name"], second["name"] = second["name"], first["name"]

    provider.play(answer(swapped))
    assert scores(make().rerank("q", NUMBERS)) == {0: None, 1: None, 2: 0.5}

    def nameless(reply, _request):
        for one in reply["answers"]:
            one["name"] = None

    provider.play(answer(nameless))
    assert make().rerank("q", NUMBERS).order == (1, 2, 0)
    provider.play(answer(lambda reply, _request: reply["answers"][1].update(name=[])))
    assert scores(make().rerank("q", NUMBERS)) == {0: 0.3, 1: None, 2: 0.5}
    provider.play(answer(set_answers(lambda answers: answers[:-1])))
    assert scores(make().rerank("q", NUMBERS)) == {0: 0.3, 1: 0.9, 2: None}

    def fewer(reply, request):
        nameless(reply, request)
        del reply["answers"][-1]

    provider.play(answer(fewer))
    assert codes(make().rerank("q", NUMBERS)) == {"bad_response"}


WITHOUT_ANSWERS = {
    "none": set_answers(lambda answers: type(answers)()),
    "null": set_answers(lambda answers: None),
    "a number": set_answers(lambda answers: 5),
    "the other form": set_answers(
        lambda answers: [*answers.values()] if isinstance(answers, dict) else {"a": answers}
    ),
    "no answers": lambda reply, request: reply.pop("answers"),
}


@in_turn("name", WITHOUT_ANSWERS)
def test_without_answers(name, make, rank, provider):
    provider.play(answer(WITHOUT_ANSWERS[name]))
    ranking = rank(make(), "q", NUMBERS)
    assert (ranking.order, codes(ranking)) == ((0, 1, 2), {"bad_response"})
    assert len(provider.requests) == 1


def test_an_error_with_status_200_is_shown(make, provider):
    reply = {"error": {"message": "This model is not a decision model", "type": "wrong_model"}}
    provider.play(lambda _request: [http(200, reply)])
    (issue,) = make().rerank("q", NUMBERS).report.issues
    assert "not a decision model" in issue.message


def test_the_names_of_what_is_there_are_shown(make, provider):
    provider.play(lambda _request: [http(200, {"results": [], "wombats": 1})])
    (issue,) = make().rerank("wombats", NUMBERS).report.issues
    assert "'answers' is wanted, and it has 'results'" in issue.message
    assert "wombats" not in issue.message


@pytest.mark.parametrize("shape", ["google"], indirect=True)
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
    "a guard against scripts": b")]}'\n{}",
    "invalid UTF-8": b"\xff\xfe" * 9,
    "deep nesting": b"[" * 10_000,
}


@in_turn("name", ODD_BODIES)
def test_odd_bodies(name, make, provider):
    provider.play(fake.raw(http(200, ODD_BODIES[name])))
    ranking = make(limits={"retries": 1}).rerank("q", NUMBERS)
    assert (ranking.order, codes(ranking)) == ((0, 1, 2), {"bad_response"})
    assert len(provider.requests) == ranking.report.usage.calls == 1
    assert ranking.report.usage.input_tokens is None


@in_turn("usage", [None, {}, {"total_tokens": 5}, "5", [], {"input_tokens": 5.0}])
def test_missing_usage(usage, make, provider):
    provider.play(answer(lambda reply, request: reply.update(usage=usage)))
    ranking = make(prices={"input": 1.0, "output": 1.0}).rerank("q", NUMBERS)
    assert ranking.order == (1, 2, 0)
    reported = ranking.report.usage
    assert (reported.input_tokens, reported.output_tokens, reported.cost) == (None, None, None)


def test_prices(make):
    ranking = make(prices={"input": 10.0, "output": 100.0}).rerank("q", NUMBERS)
    assert ranking.report.usage.cost == pytest.approx((70 * 10 + 7 * 100) / 1e6)

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
    questions,
    right,
    with_levels,
    with_probability,
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


def yes(value: Any) -> tuple[str, Callable[[Any], None]]:
    """Another probability of a yes."""
    return "yes_no", with_probability(value)


def levels(*numbers: Any) -> tuple[str, Callable[[Any], None]]:
    """Other probabilities of the levels."""
    return "graded", with_levels(numbers)


def named(change: Callable[[str], str]) -> tuple[str, Callable[[Any], None]]:
    """The levels under other names."""

    def rename(one: Any) -> None:
        stated = one["probabilities"]
        if isinstance(stated, list):
            for row in stated:
                row["label"] = change(row["label"])
        else:
            one["probabilities"] = {change(key): value for key, value in stated.items()}

    return "graded", rename


def member(question: str, name: str, value: Any) -> tuple[str, Callable[[Any], None]]:
    return question, lambda one: one.update({name: value})


ANSWERS = {
    # the question and a change of the answer; the score, or None if it cannot be used
    "nought": (yes(0.0), 0.0),
    "a whole number": (yes(1), 1.0),
    "a rounding error above 1": (yes(1.00001), 1.0),
    "not a number": (yes(float("nan")), None),
    "infinite": (yes(float("inf")), None),
    "a boolean": (yes(True), None),
    "a string": (yes("0.9"), None),
    "a mapping": (yes({"p": 0.5}), None),
    "exact levels": (levels(0.0, 0.0, 0.5, 0.5), 2.5 / 3),
    "whole numbers of levels": (levels(0, 0, 0, 1), 1.0),
    "rounded to two decimals": (levels(0.33, 0.33, 0.33, 0.0), 1 / 3),
    "rounded to a sum above 1": (levels(0.34, 0.34, 0.33, 0.0), (0.34 + 0.66) / 1.01 / 3),
    "a sum of 0.8": (levels(0.2, 0.2, 0.2, 0.2), None),
    "a sum of 1.2": (levels(0.3, 0.3, 0.3, 0.3), None),
    "a level below 0": (levels(-0.5, 0.5, 0.5, 0.5), None),
    "a level above 1": (levels(1.5, -0.5, 0.0, 0.0), None),
    "one level too few": (levels(0.5, 0.5, 0.0), None),
    "one level too many": (levels(0.5, 0.5, 0.0, 0.0, 0.0), None),
    "no levels": (levels(), None),
    "a level that is a string": (levels(0.0, 0.0, "0.5", 0.5), None),
    "names from 1": (named(lambda number: str(int(number) + 1)), None),
    "names with spaces": (named(lambda number: f" {number}"), None),
    "names of two digits": (named(lambda number: f"0{number}"), None),
    "the same names": (named(lambda number: "0"), None),
    "no distribution": (member("graded", "probabilities", None), None),
    "a number for a distribution": (member("graded", "probabilities", 5), None),
    "rows that are numbers": (member("graded", "probabilities", [5]), None),
    "rows without a probability": (member("graded", "probabilities", [{"label": "0"}]), None),
    "rows that are null": (member("graded", "probabilities", [None] * 4), None),
    "another type, graded": (member("graded", "type", "choice"), None),
    "no type, graded": (member("graded", "type", None), None),
    "another type": (member("yes_no", "type", "boolean"), None),
    "a list of types": (member("yes_no", "type", ["score"]), None),
}


@in_turn("name", ANSWERS)
def test_scores_of_answers(name, make, provider):
    (question, change), score = ANSWERS[name]
    provider.play(each_answer(change))
    ranking = make(question=question).rerank("q", NUMBERS)
    assert scores(ranking) == pytest.approx({0: 0.3, 1: score, 2: 0.5})
    issues = [(issue.code, issue.positions) for issue in ranking.report.issues]
    assert issues == ([("score_refused", (1,))] if score is None else [])


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_field_that_is_null_in_all_answers_is_named(question, make, provider):
    changes = {
        "yes_no": with_probability(None),
        "graded": member("graded", "probabilities", None)[1],
    }
    provider.play(each_answer(changes[question], lambda index: True))
    (issue,) = make(question=question).rerank("q", NUMBERS).report.issues
    assert "is null or missing" in issue.message


@in_turn("value", [1.5, -0.2, 1e300])
def test_other_scale_refuses_all_batches(value, make, provider):
    provider.play(each_answer(with_probability(value)))
    ranking = make(batch_size=2).rerank("q", [*NUMBERS, "7 d"])
    assert (ranking.report.status, ranking.order) == ("unchanged", (0, 1, 2, 3))
    assert codes(ranking) == {"score_out_of_range"}


def test_rounded_grades_are_ties_in_the_input_order(make, provider):
    """Other distributions of the same expectation, whose sums differ by rounding errors."""
    spread = iter([[0.1, 0.2, 0.3, 0.4], [0.0, 0.3, 0.4, 0.3], [0.15, 0.15, 0.25, 0.45]])

    def change(one):
        with_levels(next(spread))(one)

    provider.play(each_answer(change, lambda index: True))
    ranking = make(question="graded").rerank("q", NUMBERS)
    assert ranking.order == (0, 1, 2)
    assert len({item.rerank_score for item in ranking}) == 1


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


Text = Callable[[str], str]
DOUBLED: dict[str, tuple[str, str, Text, str]] = {
    # the API, the question, the text of the response; why it is refused
    "answers": ("google", "yes_no", lambda t: '{"answers": {}, ' + t[1:], "'answers' twice"),
    "members of an answer": (
        "openai", "yes_no", lambda t: t.replace('{"type": ', '{"type": "x", "type": '),
        "an answer states something twice",
    ),
    "members of a graded answer": (
        "systemone", "graded", lambda t: t.replace('{"type": ', '{"type": "x", "type": '),
        "an answer states something twice",
    ),
    "levels": (
        "systemone", "graded", lambda t: t.replace('"0": ', '"0": 1.0, "0": '),
        "not one probability of each level",
    ),
    "members of a level": (
        "openai", "graded", lambda t: t.replace('{"label": ', '{"label": "9", "label": '),
        "not one probability of each level",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "question", "change", "message"), DOUBLED.values(), ids=DOUBLED, indirect=["shape"]
)
def test_what_is_stated_twice_is_refused(question, change, message, make, provider):
    provider.play(lambda request: [http(200, change(json.dumps(right(request))).encode())])
    (issue,) = make(question=question).rerank("q", NUMBERS).report.issues
    assert issue.code == "bad_response"
    assert message in issue.message


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
    provider.play(answer(lambda reply, _request: reply["answers"].pop()))
    assert scores(make().rerank("q", NUMBERS)) == {0: 0.3, 1: 0.9, 2: None}

    def fewer(reply, request):
        nameless(reply, request)
        del reply["answers"][-1]

    provider.play(answer(fewer))
    assert codes(make().rerank("q", NUMBERS)) == {"bad_response"}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"error": {"message": "This is no decision model"}}, "This is no decision model"),
        ({"results": [], "wombats": 1}, "'answers' is wanted, and it has 'results'"),
        ({"answers": None}, "'answers' is null"),
    ],
)
def test_what_is_there_instead_of_answers(reply, message, make, provider):
    provider.play(lambda _request: [http(200, reply)])
    (issue,) = make().rerank("wombats", NUMBERS).report.issues
    assert message in issue.message
    assert "wombats" not in issue.message


@pytest.mark.parametrize("shape", ["google"], indirect=True)
def test_the_input_is_blocked(make, rank, provider):
    provider.play(lambda r: [http(200, {"prompt_feedback": {"block_reason": "safety"}})])
    ranking = rank(make(limits={"retries": 2}), "q", NUMBERS)
    assert codes(ranking) == {"content_filter"}
    assert len(provider.requests) == 5  # 3, 1 and 2, 1 and 1


ODD_BODIES = [
    b"{}",
    b"null",
    b"[]",
    b'"no"',
    b"",
    b"the first is best: 0.9",
    b'{"answers": [',
    b")]}'\n{}",
    b"\xff\xfe" * 9,
    b"[" * 10_000,
    b'{"answers": null}',
    b'{"answers": 5}',
    b'{"answers": []}',
    b'{"answers": {}}',
    b'{"answers": {"a": {"type": "noul", "noul": 1}}}',
    b'{"answers": [{"type": "predicate", "probability": 1}]}',
]


@pytest.mark.parametrize("body", ODD_BODIES, ids=lambda body: ascii(body)[:30])
def test_bodies_without_answers(body, make, provider):
    provider.play(fake.raw(http(200, body)))
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

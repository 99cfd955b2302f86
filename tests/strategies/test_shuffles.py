"""Shuffles: several orders side by side, their mean, and how far they are apart."""

import json
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Model, best_first, failing, graded, judge, number_of, numbered, ranked
from sampling import examples
from secondpass import Reranker
from secondpass.errors import LLMError, MethodError
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass.strategies.shuffles import Shuffles

METHODS = {
    "graded": lambda model, **settings: Graded(model, scale=(0, 300), **settings),
    "listwise": Listwise,
    "blocks": Blocks,
}
REPLIES = {"graded": graded, "listwise": ranked, "blocks": ranked}


@pytest.fixture(params=METHODS)
def kind(request):
    return request.param


def planned(method, count):
    """What a method would take for that many candidates."""
    return Reranker(method, depth=None).plan(count).total


def prompts(asks):
    return [question.request.turns[0].text for ask in asks for question in ask.questions]


# ---------------------------------------------------------------------- what is asked


def test_the_first_shuffle_is_the_order_itself(kind):
    texts = numbered(range(60))
    _, asks = judge(METHODS[kind](Model(), labels="index1"), texts, REPLIES[kind])
    method = METHODS[kind](Model(), labels="index1", shuffles=3)
    _, asks_of_three = judge(method, texts, REPLIES[kind])
    assert len(asks_of_three) == len(asks)
    for one, three in zip(asks, asks_of_three, strict=True):
        assert len(three.questions) == 3 * len(one.questions)
        assert prompts([three])[: len(one.questions)] == prompts([one])


def test_orders_are_always_the_same():
    orders = Shuffles(3).orders(30)
    assert orders[0] == list(range(30))
    assert all(sorted(order) == orders[0] for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert Shuffles(3).orders(30) == orders == Shuffles(4).orders(30)[:3]
    assert orders[1][:5] == [26, 27, 22, 2, 5]  # in every process and version: answers are cached


# ---------------------------------------------------------------------- what is made of it


@examples(20)
@given(st.permutations(range(30)), st.integers(2, 4))
def test_an_exact_judge_gives_what_it_gives_once(numbers, shuffles):
    texts = numbered(numbers)
    for kind, method in METHODS.items():
        judgement, _ = judge(method(Model(), shuffles=shuffles), texts, REPLIES[kind])
        if kind == "graded":
            assert list(judgement.scores) == numbers
        if kind != "blocks":  # the order behind its best 20 is not exact
            assert [numbers[index] for index in best_first(judgement)][:10] == [*range(29, 19, -1)]
        assert not judgement.issues


@given(st.integers(2, 25), st.integers(2, 5), st.integers(0, 10**6))
def test_ranks_are_those_of_the_mean_reciprocal_ranks(count, shuffles, seed):
    draw = random.Random(seed)
    runs = []

    def reply(passages):
        labels = list(passages)
        draw.shuffle(labels)
        runs.append([number_of(passages[label]) for label in labels])
        return json.dumps({"ranking": labels})

    method = Listwise(Model(), window=None, shuffles=shuffles)
    judgement, _ = judge(method, numbered(range(count)), reply)
    places = [[run.index(index) for run in runs] for index in range(count)]
    fused = [fmean(1 / (61 + place) for place in found) for found in places]
    assert best_first(judgement) == sorted(range(count), key=lambda index: (-fused[index], index))
    assert sorted(judgement.scores) == [place / count for place in range(1, count + 1)]


@given(st.floats(0, 10), st.integers(2, 6))
def test_the_mean_of_equal_grades_is_the_grade(grade, shuffles):
    reply = lambda passages: json.dumps(dict.fromkeys(passages, grade))  # noqa: E731
    judgement, _ = judge(Graded(Model(), shuffles=shuffles), ["a", "b"], reply)
    assert list(judgement.scores) == [grade, grade]


# ---------------------------------------------------------------------- what is missing


def test_shuffles_that_were_answered_count(kind):
    # In the second of two shuffles, nothing is answered.
    asked = planned(METHODS[kind](Model()), 20).calls
    reply = failing(*range(asked, 2 * asked), honest=REPLIES[kind])
    judgement, _ = judge(METHODS[kind](Model(), shuffles=2), numbered(range(20)), reply)
    assert best_first(judgement) == list(range(19, -1, -1))
    assert [issue.code for issue in judgement.issues] == ["server_error"]
    assert "one of the shuffles scored nothing" in judgement.issues[0].message


def test_another_shuffle_stands_in_for_a_failed_batch():
    method = Graded(Model(), scale=(0, 40), shuffles=2)
    judgement, _ = judge(method, numbered(range(40)), failing(0, honest=graded))
    assert list(judgement.scores) == list(range(40))
    assert [(issue.code, issue.positions) for issue in judgement.issues] == [
        ("server_error", tuple(range(20)))
    ]
    assert not judgement.unjudged


def test_without_a_score_in_any_shuffle():
    def reply(passages):
        return json.dumps(
            {label: number_of(text) for label, text in passages.items() if number_of(text) != 3}
        )

    judgement, _ = judge(Graded(Model(), shuffles=2), numbered(range(6)), reply)
    assert judgement.scores[3] is None
    assert judgement.unjudged == frozenset()  # it was shown
    assert [(issue.code, issue.positions) for issue in judgement.issues] == [("not_in_reply", (3,))]
    method = Graded(Model(), batch_size=3, shuffles=2)
    judgement, _ = judge(method, numbered(range(6)), failing(0, 2, 3, honest=graded))
    assert judgement.unjudged == {0, 1, 2}


@pytest.mark.parametrize(
    ("kind", "calls", "runs"),
    [
        ("graded", 15, 3),
        ("graded", 14, 2),
        ("graded", 5, 1),
        ("graded", 4, 1),  # one is begun whatever the limits allow
        ("listwise", 27, 3),
        ("listwise", 26, 2),
        ("listwise", 9, 1),
        ("blocks", 22, 2),
        ("blocks", 11, 1),
    ],
)
def test_limits_allow_fewer_shuffles(kind, calls, runs):
    model = Model(REPLIES[kind])
    reranker = Reranker(METHODS[kind](model, shuffles=3), limits={"calls": calls})
    report = reranker.rerank("wombats", numbered(range(100))).report
    needed = planned(METHODS[kind](model, shuffles=runs), 100).calls
    assert len(model.prompts) == min(needed, calls)
    assert report.status == ("ok" if calls >= needed else "partial")
    codes = [issue.code for issue in report.issues if issue.code != "budget"]
    assert codes == ([] if runs == 3 else ["fewer_runs"])


def test_shuffles_are_given_up_for_the_windows_of_the_first():
    # After two rounds of three windows each, what is left suffices for one shuffle.
    texts = numbered(range(100))
    method = Listwise(Model(), shuffles=3)
    judgement, asks = judge(method, texts, rounds=lambda done: None if done < 2 else 7)
    assert [len(ask.questions) for ask in asks] == [3, 3, 1, 1, 1, 1, 1, 1, 1]
    assert best_first(judgement)[:10] == list(range(99, 89, -1))
    assert [issue.code for issue in judgement.issues] == ["fewer_runs"]


# ---------------------------------------------------------------------- the ranking


GROUPS = {"graded": "batch_size", "listwise": "window", "blocks": "block"}


@examples(50)
@given(
    st.integers(1, 40),
    st.integers(2, 9) | st.just(20),
    st.integers(1, 4),
    st.integers(0, 10**6),
    st.sampled_from([*METHODS]),
)
def test_nothing_wrong_is_made_of_any_reply(count, size, shuffles, seed, kind):
    draw = random.Random(seed)

    def reply(passages):
        labels = list(passages)
        draw.shuffle(labels)
        drawn = draw.randrange(5)
        if drawn == 0:
            return LLMError("the server is down", "server_error")
        labels = labels[: draw.randrange(len(labels) + 1) if drawn == 1 else None]
        if kind == "graded":
            return json.dumps({label: draw.randrange(300) for label in labels})
        return json.dumps({"ranking": labels})

    method = METHODS[kind](Model(), shuffles=shuffles, **{GROUPS[kind]: size})
    try:
        judgement, asks = judge(method, numbered(range(count)), reply)
    except MethodError:
        return
    scored = best_first(judgement)
    assert judgement.unjudged.isdisjoint(scored)
    if kind != "graded":
        assert len({judgement.scores[index] for index in scored}) == len(scored)
    halvings = count.bit_length() if kind == "graded" else 0
    assert len(asks) <= planned(method, count).rounds + halvings

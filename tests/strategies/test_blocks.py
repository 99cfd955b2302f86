"""Blocks: their design, how their orders are joined, and what counts if some have no answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Model, best_first, failing, judge, numbered, ranked, task_of
from secondpass import Reranker
from secondpass.effects import Call, Left
from secondpass.limits import Prices
from secondpass.strategies.blocks import Blocks, design, joint_order, largest_component


@given(st.integers(1, 150), st.integers(2, 25), st.integers(2, 4))
def test_every_index_is_in_as_many_blocks(count, size, copies):
    blocks = design(count, size, copies)
    number = -(-count // size)
    assert len(blocks) == (1 if number == 1 else copies * number)
    assert all(block == sorted(set(block)) and len(block) <= size for block in blocks)
    shown = [index for block in blocks for index in block]
    assert sorted(shown) == sorted([*range(count)] * (1 if number == 1 else copies))


@pytest.mark.parametrize(
    ("orders", "joined"),
    [
        ([[0, 1], [1, 2]], {0, 1, 2}),
        ([[0, 1], [2, 3]], {0, 1}),
        ([[4, 5, 6], [0, 1]], {4, 5, 6}),
        ([[0, 1], [2, 3], [3, 0]], {0, 1, 2, 3}),
        ([[0]], {0}),
    ],
)
def test_largest_component(orders, joined):
    assert largest_component(orders) == joined


@pytest.mark.parametrize(
    ("orders", "joint"),
    [
        ([[2, 1, 0]], [2, 1, 0]),
        ([[1, 0], [1, 2]], [1, 0, 2]),
        ([[0, 1], [1, 0]], [0, 1]),
        ([[3]], [3]),
        ([[2, 0, 1], [2, 1, 0]], [2, 0, 1]),
    ],
)
def test_joint_order(orders, joint):
    assert joint_order(orders) == joint


def test_candidates_without_an_answered_block_are_unjudged():
    blocks = design(100, 20, 2)
    judgement, _ = judge(Blocks(Model()), numbered(range(100)), failing(0, 5))
    assert judgement.unjudged == {*blocks[0]} & {*blocks[5]}
    assert len(judgement.unjudged) == 4


def test_blocks_apart_from_the_others_do_not_count():
    # Only two blocks of the first copy are answered, and they have no candidate in common.
    judgement, _ = judge(Blocks(Model(), final=0), numbered(range(45)), failing(*range(1, 6)))
    first = design(45, 20, 2)[0]
    assert best_first(judgement) == first[::-1]
    judgement, _ = judge(Blocks(Model(), final=0), numbered(range(45)), failing(2, 3, 4, 5))
    assert best_first(judgement) == first[::-1]
    assert judgement.unjudged == set(range(45)) - set(first)
    assert "windows_not_joined" in [issue.code for issue in judgement.issues]


def test_without_the_last_answer_the_joint_order_stands():
    texts = numbered(range(100))
    without, _ = judge(Blocks(Model(), final=0), texts)
    judgement, _ = judge(Blocks(Model()), texts, failing(10))
    assert judgement.degraded_by == ("stage",)
    assert list(judgement.scores) == list(without.scores)


PRICES = {"input": 1.0, "output": 1.0}
LIMITED = [
    # limits; prices; questions that are asked; number of first candidates that are ordered
    ({"calls": 11}, None, 11, 100),
    ({"calls": 10}, None, 9, 80),
    ({"calls": 5}, None, 5, 40),
    ({"calls": 3}, None, 1, 20),
    ({"tokens": 2300}, None, 5, 40),
    ({"tokens": 900}, None, 1, 20),
    ({"tokens": 1}, None, 0, 0),
    ({"cost": 0.0023}, PRICES, 5, 40),
]


@pytest.mark.parametrize(("limits", "prices", "calls", "judged"), LIMITED)
@pytest.mark.parametrize("shuffles", [1, 2])
def test_the_first_are_ordered_in_full_within_the_limits(limits, prices, calls, judged, shuffles):
    model = Model(ranked, prices=prices and Prices(**prices))
    reranker = Reranker(Blocks(model, shuffles=shuffles), limits=limits, log_level="debug")
    texts = numbered(range(100))
    ranking = reranker.rerank("wombats", texts)
    assert len(model.prompts) == calls
    assert {item.position for item in ranking if item.status == "scored"} == set(range(judged))
    best = range(judged - 1, judged - 11, -1)
    assert ranking.order[: len(best) if judged else 0] == tuple(best if judged else ())
    codes = {issue.code: issue.positions for issue in ranking.report.issues}
    assert codes.get("budget", ()) == (tuple(range(judged, 100)) if judged else codes["budget"])
    assert ("fewer_runs" in codes) == (shuffles > 1 and judged > 0)
    stage = reranker.plan(texts, query="wombats").stages[0]
    assert stage.left_out == 100 - judged


ONLY = "the limits allow questions about the first {} candidates only".format
NO_LAST = "the limits do not allow the last question, about the best once more"
LEFT_OUT = [
    # candidates; questions that are allowed; issues with the number of the first left out, if any
    (40, 5, []),
    (40, 4, [(NO_LAST, None)]),
    (40, 3, [(ONLY(20), 20)]),
    (100, 4, [(ONLY(40), 40), (NO_LAST, None)]),
]


@pytest.mark.parametrize(("count", "calls", "expected"), LEFT_OUT)
def test_what_the_limits_leave_out(count, calls, expected):
    ranking = Reranker(Blocks(Model(ranked)), limits={"calls": calls}, log_level="debug").rerank(
        "wombats", numbered(range(count))
    )
    issues = [(issue.message, issue.positions) for issue in ranking.report.issues]
    assert issues == [
        (message, () if first is None else tuple(range(first, count)))
        for message, first in expected
    ]


def test_blocks_that_the_pace_of_an_earlier_stage_does_not_allow_are_left_out():
    left = Left(seconds=2.9, concurrency=8, question_seconds=1.0, question_waves=1)

    class Late(Call):
        def limits_left(self):
            return left

    plan = Blocks(Model()).judge(task_of(numbered(range(100)), call=Late()))
    assert len(next(plan).questions) == 8

"""Bounds of questions: what a faultless run asks lies within them."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable, Model, in_answer, numbered, play, ranked, task_of
from sampling import examples
from secondpass import Reranker
from secondpass.candidates import to_requests
from secondpass.methods import to_method
from secondpass.runtime import drivers
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.decisions import Decisions
from secondpass.strategies.endpoint import Endpoint
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass.strategies.pointwise import Pointwise

counts = st.integers(1, 200)
sizes = st.integers(2, 40)


def windows_with(below):
    """A window, and a number below it."""
    return sizes.flatmap(lambda size: st.tuples(st.just(size), st.integers(below, size - 1)))


ORDERING = st.one_of(
    windows_with(1).map(lambda it: Listwise(Model(ranked), window=it[0], stride=it[1])),
    st.just(Listwise(Model(ranked), window=None)),
    st.just(Listwise(Model(ranked), shuffles=2)),
    st.builds(
        lambda block, copies, final, shuffles: Blocks(
            Model(ranked), block=block, copies=copies, final=final, shuffles=shuffles
        ),
        sizes,
        st.integers(2, 4),
        st.integers(0, 40),
        st.integers(1, 2),
    ),
)
GRADING = st.builds(
    lambda size, single, shuffles: Graded(
        Model(), scale=(0, 300), batch_size=size, judge_single=single, shuffles=shuffles
    ),
    sizes | st.none() | st.just(1),
    st.booleans(),
    st.integers(1, 3),
)
METHODS = ORDERING | GRADING


@st.composite
def cascades(draw):
    """Stages of any kind, each for as many as the one before or fewer; they may nest."""
    depths = sorted(draw(st.lists(counts, min_size=2, max_size=3)), reverse=True)
    stages = [{"method": draw(METHODS | st.builds(ByTable)), "depth": depth} for depth in depths]
    cascade = Cascade([{**stage, "method": to_method(stage["method"])} for stage in stages])
    if draw(st.booleans()):
        inner = {"method": cascade, "depth": depths[0]}
        cascade = Cascade([inner, {"method": draw(METHODS), "depth": depths[-1]}])
    return cascade


def within(number, bounds):
    return bounds[0] <= number <= bounds[1]


@examples(20)
@given(METHODS | cascades(), counts, st.integers(0, 10**6))
def test_ledger_of_a_faultless_run_is_within_the_bounds(method, count, seed):
    texts = numbered(random.Random(seed).sample(range(count), count))
    reranker = Reranker(method, depth=None)
    requests = to_requests([("wombats", texts)], text_needed=True)
    (item,) = reranker._passes(requests, reranker._settings({}))
    (ranking,) = drivers.run([item])
    # Behind windows and blocks, an exact judge leaves low ranks to the order of the candidates.
    assert {issue.code for issue in ranking.report.issues} <= {"shuffles_disagree"}
    bounds = bounds_of(method, count)
    assert within(item.ledger.questions, bounds.calls)
    assert within(item.ledger._question_rounds, bounds.rounds)


@examples(20)
@given(ORDERING, counts, st.integers(0, 10**6), st.sampled_from(["random", "first last"]))
def test_a_judge_that_contradicts_itself_stays_within_the_bounds(method, count, seed, kind):
    draw = random.Random(seed)

    def reply(passages):
        labels = list(passages)
        if kind == "random":
            draw.shuffle(labels)
        else:  # whatever the others are compared with comes last
            labels = [*labels[1:], labels[0]]
        return json.dumps({"ranking": labels})

    _, asks = play(method.judge(task_of(numbered(range(count)))), in_answer(reply))
    bounds = method.bounds(count)
    assert within(sum(len(ask.questions) for ask in asks), bounds.calls)
    assert within(len(asks), bounds.rounds)


TABLE = [
    # method, candidates, bounds of calls, bounds of rounds
    (Listwise(Model()), 100, (9, 9), (9, 9)),
    (Listwise(Model(), window=None), 100, (1, 1), (1, 1)),
    (Listwise(Model()), 20, (1, 1), (1, 1)),
    (Listwise(Model()), 21, (2, 2), (2, 2)),
    (Blocks(Model()), 100, (11, 11), (2, 2)),
    (Blocks(Model(), copies=3), 100, (16, 16), (2, 2)),
    (Blocks(Model(), final=0), 100, (10, 10), (1, 1)),
    (Blocks(Model()), 20, (1, 1), (1, 1)),
    (Graded(Model()), 100, (5, 5), (1, 1)),
    (Graded(Model()), 1, (1, 1), (1, 1)),
    (Graded(Model(), shuffles=3), 100, (15, 15), (1, 1)),
    (Graded(Model(), shuffles=3), 1, (1, 1), (1, 1)),
    (Listwise(Model(), shuffles=3), 100, (27, 27), (9, 9)),
    (Blocks(Model(), shuffles=3), 100, (33, 33), (2, 2)),
    (Blocks(Model(), shuffles=3), 1, (0, 0), (0, 0)),
    (Graded(Model(), judge_single=False), 1, (0, 0), (0, 0)),
    (Pointwise(Model(has_logprobs=True)), 100, (100, 100), (1, 1)),
    (Pointwise(Model(has_logprobs=True)), 1, (1, 1), (1, 1)),
    (Endpoint("tei", base_url="http://localhost"), 100, (4, 4), (1, 1)),
    (Endpoint("cohere", model="m", api_key="k"), 100, (1, 1), (1, 1)),
    (Decisions("openai", model="m", api_key="k"), 100, (2, 2), (1, 1)),
    (to_method(ByTable()), 100, (0, 0), (0, 0)),
]


@pytest.mark.parametrize(
    ("method", "count", "calls", "rounds"),
    TABLE,
    ids=[f"{type(row[0]).__name__} {row[1]}" for row in TABLE],
)
def test_bounds(method, count, calls, rounds):
    assert bounds_of(method, count) == Bounds(calls, rounds)
    assert bounds_of(method, count).exact is (calls[0] == calls[1])


@pytest.mark.parametrize("method", [row[0] for row in TABLE], ids=lambda it: type(it).__name__)
def test_nothing_is_asked_about_nothing(method):
    assert bounds_of(method, 0) == Bounds()


@examples(20)
@given(counts, sizes)
def test_services_are_asked_about_each_batch(count, size):
    for method in (
        Endpoint("tei", base_url="http://localhost", batch_size=size),
        Decisions("openai", model="m", api_key="k", batch_size=size),
    ):
        ask = next(method.judge(task_of(numbered(range(count)))))
        assert method.bounds(count) == Bounds.exactly(len(ask.questions), 1)


def test_a_method_without_bounds_has_none_and_neither_has_its_cascade():
    class Own:
        name, score_kind, scale = "own", "unbounded", None

        def judge(self, task):
            raise NotImplementedError

    assert bounds_of(Own(), 5) is None
    assert Cascade([{"method": Own()}, {"method": Listwise(Model())}]).bounds(5) is None

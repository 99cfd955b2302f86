"""What is computed from one ranking is what a ranking with that blend and depth is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass import Candidate, Reranker
from secondpass.effects import Judgement
from secondpass.ranking.blending import Blend
from secondpass.types import Issue
from secondpass_evaluation import compare, make_suite
from secondpass_evaluation.reranking import replayed, replayed_run
from topic_suites import ByGrade


class ByText:
    """Scores a text by itself; some texts have no score."""

    model_name = "by-text"

    def score_pairs(self, query, documents):
        return [None if text.startswith("-") else float(len(text) % 4) for text in documents]


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.text("-ab", max_size=6),
        score=st.none() | st.floats(-5, 5, allow_nan=False),
    ),
    max_size=9,
)
BLENDS = st.none() | st.builds(Blend, st.floats(0, 1), st.sampled_from(["minmax", "zscore", "rrf"]))


@examples(25)
@given(CANDIDATES, BLENDS, st.integers(1, 10))
def test_a_replayed_order_is_that_of_a_ranking(candidates, blend, depth):
    bare = Reranker(ByText(), depth=10, log_level="debug").rerank("q", candidates)
    real = Reranker(ByText(), depth=depth, blend=blend, log_level="debug").rerank("q", candidates)
    assert tuple(replayed(bare, blend, depth=depth)) == real.order


@examples(25)
@given(CANDIDATES, BLENDS, st.sets(st.integers(0, 8)))
def test_the_order_of_a_partial_ranking_is_replayed(candidates, blend, failed):
    class Partial:
        name, score_kind, scale = "partial", "unbounded", None

        def judge(self, task):
            yield from ()
            scores = [None if i in failed else i % 3 + 0.5 for i in range(len(task.texts))]
            lost = frozenset(failed & set(range(len(scores))))
            issue = Issue("timeout", "no answer", tuple(sorted(lost)))
            return Judgement(scores, lost, [issue])

    bare = Reranker(Partial(), depth=10, log_level="debug").rerank("q", candidates)
    real = Reranker(Partial(), depth=10, blend=blend, log_level="debug").rerank("q", candidates)
    assert tuple(replayed(bare, blend)) == real.order


class HalfSure:
    """A method that gives the original order a weight."""

    name = "half-sure"
    score_kind = "unbounded"
    scale = None

    def judge(self, task):
        yield from ()
        return Judgement([float(len(text) % 4) for text in task.texts], original=0.5)


@examples(25)
@given(CANDIDATES, BLENDS)
def test_a_weight_that_the_method_states_is_kept(candidates, blend):
    bare = Reranker(HalfSure(), log_level="debug").rerank("q", candidates)
    real = Reranker(HalfSure(), blend=blend, log_level="debug").rerank("q", candidates)
    assert tuple(replayed(bare, blend)) == real.order


@pytest.mark.parametrize("journaled", [False, True])
@pytest.mark.parametrize("blend", [None, Blend(0.2, "minmax")])
def test_what_orders_a_list_is_replayed(blend, journaled):
    texts = ["A panda eats.", "Rare wombats sleep.", "Wombats eat grass.", "Bread", "Grass"]
    bare = Reranker("embedded").rerank("what do wombats eat", texts)
    real = Reranker("embedded", blend=blend).rerank("what do wombats eat", texts)
    if journaled:  # a journal keeps no trace
        bare = replace(bare, trace=None)
    assert tuple(replayed(bare, blend)) == real.order


@examples(25)
@given(st.lists(st.floats(-5, 5), min_size=3, max_size=6).map(sorted), BLENDS)
def test_distances_are_replayed(distances, blend):
    candidates = [Candidate("a" * (n % 4), score=score) for n, score in enumerate(distances)]
    bare = Reranker(ByText()).rerank("q", candidates)
    real = Reranker(ByText(), blend=blend).rerank("q", candidates)
    assert tuple(replayed(bare, blend)) == real.order


def test_a_fallback_ranking_is_used_as_it_is():
    candidates = [Candidate("a b", id="1", score=1.0), Candidate("b", id="2", score=0.0)]
    ranking = Reranker("lexical").rerank("b", candidates)
    assert ranking.order == (1, 0)
    runs = [
        replayed_run({"q": ranking}, {"q": candidates}, method, Blend(1.0, "minmax"), top_k=1)
        for method in ("lexical", "another")
    ]
    assert [list(run["q"]) for run in runs] == [["1"], ["2"]]


COUNT = 30
LISTS = {
    f"q{number}": [
        Candidate(f"{(place * 7 + number) % 31} x", f"d{place}", score=1 - place / COUNT)
        for place in range(COUNT)
    ]
    for number in range(8)
}
SUITE = make_suite(
    "s",
    {query: f"text {query}" for query in LISTS},
    {query: {f"d{3 * number}": 1} for number, query in enumerate(LISTS)},
    candidates=LISTS,
)


def result(scorer, **settings):
    return compare({"x": Reranker(scorer, **settings)}, SUITE)["given+x"]


@pytest.mark.parametrize(
    ("blend", "depth"), [(None, 25), (Blend(0.3, "minmax"), None), (Blend(0.5, "rrf"), 25)]
)
def test_computed_as_measured(blend, depth):
    found = result(ByGrade(), blend=blend, depth=depth)
    assert [*found.depths] == [10, 20, depth or COUNT]
    for each, mean in found.depths.items():
        measured = result(ByGrade(), blend=blend, depth=each).evaluation.mean["nDCG@10"]
        assert mean == pytest.approx(measured)


@pytest.mark.parametrize(
    ("pointwise", "settings"),
    [(False, {}), (True, {"depth": 10}), (True, {"floor": 9.0})],
    ids=["scores of lists", "no smaller depth", "floor"],
)
def test_nothing_is_said_where_it_cannot_be_computed(pointwise, settings):
    assert result(ByGrade(pointwise=pointwise), **settings).depths == {}

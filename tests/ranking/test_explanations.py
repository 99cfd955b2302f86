"""Why a candidate has its rank, or was left out: as a record, and in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import InOrder, Judging, candidate_likes, odd_scores
from sampling import examples
from secondpass import InputError, Ranking, Reranker
from secondpass.effects import Judgement
from secondpass.ranking.blending import Blend
from secondpass.types import Issue, Report

FRUIT = [
    {"id": "moon", "text": "a secret", "score": 0.9},
    {"id": "pear", "text": "a secret fruit", "score": 0.8},
    {"id": "fig", "text": "a secret", "score": 0.1},
]


def input_order(items):
    return sorted(items, key=lambda item: item.position)


def explained(identifier, candidates=FRUIT, scores=(0.2, 0.6, 0.4), **settings):
    reranker = Reranker(InOrder(list(scores)), log_level="debug", **settings)
    return reranker.rerank("the query", candidates).explain(identifier)


MINMAX = {"original": 0.25, "normalize": "minmax"}
BLENDED = "0.25 * 0.875 (retrieval) + 0.75 * 1 (method) = 0.96875, by minmax"


@pytest.mark.parametrize(
    ("identifier", "settings", "lines"),
    [
        ("pear", {}, ["'pear': rank 1, of 3", "rank 2, score 0.8", "0.6 (unbounded) by in-order"]),
        ("pear", {"blend": MINMAX}, [BLENDED]),
        ("moon", {"floor": 0.3}, ["left out, of 3", "0.2 is below 0.3"]),
        ("moon", {"top_k": 2}, ["it is number 3, beyond top_k"]),
        ("fig", {"depth": 1}, ["beyond the depth; it keeps its order"]),
        ("fig", {"order": "lost_in_the_middle"}, ["rank 2 by score, moved by lost_in_the_middle"]),
        ("pear", {"order": "lost_in_the_middle"}, ["rank 1 by score, and stays there"]),
    ],
)
def test_in_words(identifier, settings, lines):
    text = str(explained(identifier, **settings))
    assert [line for line in lines if line not in text] == []
    assert "secret" not in text


def test_a_blend_without_retrieval_scores_is_by_rank():
    texts = [{"id": name, "text": name} for name in ("moon", "pear", "fig")]
    text = str(explained("pear", texts, blend=MINMAX))
    assert "rank 2, no score" in text
    assert "(retrieval, by rank) + " in text


@pytest.mark.parametrize(
    ("code", "why"), [("timeout", "its retrieval rank decides"), ("declined", "it was declined")]
)
def test_why_a_candidate_was_not_judged(code, why):
    issue = Issue(code, "no answer", (1,))
    method = Judging(Judgement([0.1, None, 0.3], frozenset({1}), [issue]))
    ranking = Reranker(method, log_level="debug").rerank("q", FRUIT)
    assert why in str(ranking.explain("pear"))


def test_the_best_of_several_with_an_id_is_explained():
    candidates = [{**item, "id": "same"} for item in FRUIT]
    explanation = explained("same", candidates)
    assert (explanation.position, explanation.same_id) == (1, (0, 2))
    ranking = Reranker(InOrder([0.5]), dedupe=True).rerank("q", candidates)
    assert (ranking.explain("same").position, ranking.explain("same").rank) == (0, 1)
    explanation = ranking.explain(position=2)
    assert explanation.left_out == "duplicate"
    assert "another candidate with this id" in str(explanation)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"id": "pea"}, "no candidate has the id 'pea'; did you mean 'pear'"),
        ({"id": "x"}, "no candidate has the id 'x'; known are: 'fig', 'moon', 'pear'"),
        ({}, "give the id of a candidate, or its position"),
        ({"id": "fig", "position": 1}, "id, position: give one of them"),
        ({"position": 3}, "position: must be 0 to 2, not 3"),
        ({"position": True}, "position: must be 0 to 2, not True"),
    ],
)
def test_unknown_candidates(arguments, problem):
    ranking = Reranker(InOrder([0.2, 0.6, 0.4])).rerank("q", FRUIT)
    with pytest.raises(InputError, match=problem):
        ranking.explain(**arguments)


def test_ids_are_quoted_in_errors():
    ids = ["a\n\x1b[31m", "b" * 10_000]
    ranking = Reranker(InOrder([0.2, 0.1])).rerank("q", [{"id": one, "text": "a"} for one in ids])
    for wrong in ("zz", "b" * 9_999):
        with pytest.raises(InputError, match=r"known are: 'a\\n\\x1b\[31m', a str$") as caught:
            ranking.explain(wrong)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arguments", [{"id": "a"}, {"position": 0}])
def test_a_ranking_without_candidates(arguments):
    with pytest.raises(InputError, match="has no candidates to explain"):
        Reranker(InOrder([])).rerank("q", []).explain(**arguments)


def test_a_ranking_without_a_trace():
    with pytest.raises(InputError, match="has no trace to explain"):
        Ranking("q", (), Report("ok")).explain("a")


@examples(50)
@given(
    st.lists(candidate_likes, max_size=8),
    st.lists(odd_scores, min_size=8, max_size=8),
    st.one_of(
        st.none(), st.builds(Blend, st.floats(0, 1), st.sampled_from(["minmax", "zscore", "rrf"]))
    ),
    st.fixed_dictionaries(
        {
            "depth": st.one_of(st.none(), st.integers(1, 9)),
            "floor": st.one_of(st.none(), st.floats(-2, 2)),
            "top_k": st.one_of(st.none(), st.integers(1, 9)),
            "tail": st.sampled_from(["keep", "drop"]),
            "dedupe": st.booleans(),
            "order": st.sampled_from([None, "lost_in_the_middle", input_order]),
        }
    ),
)
def test_every_candidate_is_explained_as_it_is_ranked(candidates, scores, blend, more):
    reranker = Reranker(InOrder(scores), blend=blend, log_level="debug", **more)
    ranking = reranker.rerank("q", candidates)
    items = {item.position: item for item in ranking}
    reasons = {at: reason for reason, every in ranking.report.left_out.items() for at in every}
    for position in range(len(candidates)):
        explanation = ranking.explain(position=position)
        item = items.get(position)
        assert explanation.rank == (item and item.rank)
        assert explanation.left_out == reasons.get(position)
        if item is not None:
            assert explanation.rank_without_top_k == item.rank
            assert explanation.final_score == item.final_score
            assert explanation.rerank_score == item.rerank_score
        terms = explanation.blend
        if terms is not None and terms.original is not None:
            weight = terms.original_weight
            final = terms.original * weight + terms.rerank * (1 - weight)
            assert explanation.final_score == final
        assert str(explanation)
        assert "Infinity" not in json.dumps(explanation.to_dict(), default=str)

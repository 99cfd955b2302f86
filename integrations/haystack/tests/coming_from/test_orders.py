"""Compared with LostInTheMiddleRanker and MetaFieldRanker."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from haystack import Document
from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import QUERY, both, ids, scores
from rotation import rotating

# ---------------------------------------------------------------------- LostInTheMiddleRanker


@rotating(count=range(10), top_k=[None, 1, 2, 5, 20])
def test_best_at_both_ends_like_lost_in_the_middle_ranker(count: int, top_k: int | None) -> None:
    documents = [
        Document(id=f"d{index}", content="cat " * (index * 7 % 11) + "dog " * 11)
        for index in range(count)
    ]
    ranked = SecondPassRanker("lexical").run("cat", documents)["documents"]
    theirs = LostInTheMiddleRanker(top_k=top_k).run(ranked)
    ours = SecondPassRanker({"method": "lexical", "order": "lost_in_the_middle"}, top_k=top_k)
    assert ids(both(ours, "cat", documents)) == ids(theirs)
    by_call = SecondPassRanker("lexical").run(
        "cat", documents, top_k=top_k, order="lost_in_the_middle"
    )
    assert ids(by_call) == ids(theirs)


class ByNumber:
    """Scores by a number of the metadata, which `render.fields` shows in the place of a text."""

    model_name = "by-number"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return [float(document) for document in documents]


class ByPlace:
    """The same as shares of the place, the best 1."""

    model_name = "by-place"
    score_kind = "probability"
    pointwise = False

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        best_first = sorted(documents, key=float, reverse=True)
        return [1 - best_first.index(document) / len(documents) for document in documents]


def rated(seed: int, count: int = 8) -> list[Document]:
    ratings = random.Random(seed).sample(range(100), count)
    return [
        Document(id=f"d{index}", content="text", score=1 - index / count, meta={"rating": rating})
        for index, rating in enumerate(ratings)
    ]


# ---------------------------------------------------------------------- MetaFieldRanker


@rotating(seed=range(5), weight=[0.0, 0.2, 0.5, 0.9, 1.0])
def test_ranks_by_metadata_are_fused_as_meta_field_ranker_does(weight: float, seed: int) -> None:
    documents = rated(seed)
    theirs = MetaFieldRanker("rating", weight=weight).run(documents)
    config = {
        "method": ByNumber(),
        "render": {"fields": ["rating"]},
        "blend": {"original": 1 - weight, "normalize": "rrf"},
    }
    ours = both(SecondPassRanker(config), QUERY, documents)
    assert ids(ours) == ids(theirs)
    if weight:  # with none it leaves the scores as they came
        assert scores(ours) == pytest.approx(scores(theirs))


@rotating(seed=range(5), weight=[0.2, 0.5, 1.0])
def test_places_by_metadata_are_added_as_meta_field_ranker_does(weight: float, seed: int) -> None:
    documents = rated(seed)
    theirs = MetaFieldRanker("rating", weight=weight, ranking_mode="linear_score").run(documents)
    config = {
        "method": ByPlace(),
        "render": {"fields": ["rating"]},
        "blend": {"original": 1 - weight, "normalize": "none"},
    }
    ours = both(SecondPassRanker(config), QUERY, documents)
    assert scores(ours) == pytest.approx(scores(theirs))
    apart = [one for one in zip(ids(ours), ids(theirs), strict=True) if one[0] != one[1]]
    ties = {round(score, 9) for score in scores(ours)}
    assert not apart or len(ties) < len(documents)

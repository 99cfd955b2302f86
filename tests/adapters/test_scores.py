"""Scores fall along the list; metadata of others is left alone."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import InOrder
from secondpass import Candidate, Reranker
from secondpass.adapters.scores import (
    KEYS,
    falling_scores,
    naming_kept_keys,
    provenance,
    results,
    served_scores,
)
from secondpass.questions import ListScores


def ranked(scores, **settings):
    given = [Candidate(str(at), score=0.5) for at in range(len(scores))]
    return Reranker(InOrder(scores), **settings).rerank("q", given)


@pytest.mark.parametrize(
    ("scores", "settings", "falling"),
    [
        ([0.1, 0.9], {}, [0.9, 0.1]),
        ([0.1, 0.1], {}, [0.1, 0.1]),
        ([0.1, 0.9], {"depth": 1}, [1.0, 0.5]),
        ([0.1, None], {}, [1.0, 0.5]),
        ([3.0, 2.0, 1.0], {"order": "lost_in_the_middle"}, [1.0, 2 / 3, 1 / 3]),
        ([None, None], {}, [0.5, 0.5]),
        ([], {}, []),
    ],
)
def test_scores_never_rise_along_the_list(scores, settings, falling):
    assert falling_scores(ranked(scores, **settings)) == falling


HALF = 0.5
BLEND = {"blend": {"original": 0.5, "normalize": "minmax"}}
AGAINST = {"blend": {"original": 0.9, "normalize": "minmax"}}
SERVED = {
    # kind, settings, scores; what is served within 0 to 1, and as what
    "probability": ("probability", {}, [0.2, 0.9], [0.9, 0.2], "rerank"),
    "similarity": ("similarity", {}, [-1.0, 0.9], [0.9, 0.0], "rerank"),
    "negative": ("similarity", {}, [-0.9, -0.2], [0.0008 / 1.001, 0.0001 / 1.001], "rerank"),
    "rank kind": ("rank", {}, [0.5, 1.0], [1.0, 0.5], "rank"),
    "logit": ("logit", {}, [0.0, 1000.0], [1.0, HALF], "sigmoid"),
    "low logit": ("logit", {}, [-1000.0, 0.0], [HALF, 0.0], "sigmoid"),
    "grade": ("grade", {}, [1.0, 4.0], [0.75, 0.0], "rerank"),
    "unbounded": ("unbounded", {}, [0.2, 0.9], [1.0, HALF], "rank"),
    "blend": ("probability", BLEND, [0.3, 0.9], [0.9, 0.3], "rerank"),
    "blend of logits": ("logit", BLEND, [-1000.0, 0.0], [HALF, 0.0], "sigmoid"),
    "blend against the order": ("probability", AGAINST, [0.9, 0.3], [0.9 + 1e-7, 0.9], "rerank"),
    "unscored": ("probability", {}, [0.2, None], [0.2, 0.0], "rerank"),
    "beyond the depth": ("logit", {"depth": 1}, [0.0, 9.0], [HALF, 0.0], "sigmoid"),
    "none scored": ("logit", {}, [None, None], [1.0, HALF], "rank"),
    "no candidate": ("logit", {}, [], [], "rank"),
}


OWN = {
    # what is served of a model's own range
    "logit": ("logit", {}, [-3.0, 2.0], [2.0, -3.0], "rerank"),
    "blend of logits": ("logit", BLEND, [2.0, -3.0], [2.0, -3.0], "rerank"),
    "unscored below 0": ("logit", {}, [-3.0, None], [-3.0, -3.0], "rerank"),
    "unscored": ("unbounded", {}, [9.0, None], [9.0, 0.0], "rerank"),
    "grade": ("grade", {}, [1.0, 4.0], [4.0, 1.0], "rerank"),
    "rank kind": ("rank", {}, [0.5, 1.0], [1.0, 0.5], "rank"),
    "none scored": ("logit", {}, [None, None], [1.0, 0.5], "rank"),
}


@pytest.mark.parametrize(
    ("unit", "case"), [*((True, row) for row in SERVED), *((False, row) for row in OWN)]
)
def test_served_scores(unit, case):
    kind, settings, scores, expected, rule = (SERVED if unit else OWN)[case]
    candidates = [Candidate(str(at), score=[0.1, 0.4][at]) for at in range(len(scores))]
    method = InOrder(scores, score_kind=kind)
    method.scale = (1.0, 5.0)
    ranking = Reranker.from_config({"method": method, **settings}).rerank("q", candidates)
    assert served_scores(ranking, unit=unit) == (pytest.approx(expected), rule)


@given(
    st.sampled_from(["logit", "probability", "similarity", "unbounded"]),
    st.lists(st.integers(-99, 99).map(lambda n: n / 99) | st.none(), max_size=8),
    st.sampled_from([{}, {"depth": 2}, {"order": "lost_in_the_middle"}, {"top_k": 3}]),
)
def test_promised_range_and_order(kind, scores, settings):
    ranking = ranked(scores, **settings) if kind == "unbounded" else None
    ranking = ranking or Reranker(InOrder(scores, score_kind=kind), **settings).rerank(
        "q", [str(at) for at in range(len(scores))]
    )
    for unit in (False, True):
        found, rule = served_scores(ranking, unit=unit)
        assert len(found) == len(ranking)
        assert all(a >= b for a, b in pairwise(found))
        # A client that sorts the documents of its request by score gets the same order.
        pairs = sorted(zip(found, ranking.order, strict=True), key=lambda pair: pair[1])
        by_score = sorted(pairs, key=lambda pair: np.float32(pair[0]), reverse=True)
        assert [position for _, position in by_score] == [*ranking.order]
        assert rule != "sigmoid" or (unit and kind == "logit")
        if unit:
            assert all(0 <= score <= 1 for score in found)
        elif ranking.report.status != "unchanged":
            own = [item.rerank_score for item in ranking]
            assert all(b is None or a >= b for a, b in zip(found, own, strict=True))


class ByList:
    """Orders by other scores than it reports."""

    model_name, score_kind, pointwise, pair_scores = "by-list", "similarity", False, True

    def __init__(self, scores, order_scores):
        self.lists = ListScores(scores, order_scores=order_scores)

    def score_pairs(self, query, documents):
        raise AssertionError

    def score_lists(self, requests, deadline):
        yield [self.lists]


@pytest.mark.parametrize(
    ("scores", "order_scores", "unit", "served"),
    [
        ([0.7], [0.9], True, [0.7]),
        ([0.2, 0.7, 0.1], [0.9, 0.8, 0.3], True, [0.7, 0.7, 0.1]),
        # Clients sort the documents by score, in which the order would be lost.
        ([0.7, 0.2], [0.8, 0.9], True, [0.7 + 1e-7, 0.7]),
        # There is nothing above 1, so the lower ones move.
        ([1.0, 0.2], [0.8, 0.9], True, [1.0, 1 - 2e-7]),
        ([0.1, 1.0, 1.0], [0.7, 0.9, 0.8], True, [1.0, 1.0, 0.1]),
        ([0.7, -1.0], [0.9, 0.3], True, [0.7, 0.0]),
        ([0.7, -0.2], [0.9, 0.3], False, [0.7, -0.2]),
        ([0.7, None], [0.9, None], True, [0.7, 0.0]),
    ],
)
def test_served_scores_are_lifted_only_for_the_order(scores, order_scores, unit, served):
    texts = [str(at) for at in range(len(scores))]
    ranking = Reranker(ByList(scores, order_scores), log_level="debug").rerank("q", texts)
    assert [item.final_score for item in ranking] == sorted(
        order_scores, key=lambda score: -(score or 0)
    )
    assert served_scores(ranking, unit=unit) == (served, "rerank")


OURS = {
    "rerank_score": 0.9,
    "rerank_final_score": 0.9,
    "retrieval_score": 0.5,
    "rerank_rank": 1,
    "rerank_status": "scored",
}


def ours_but(*names):
    return {key: value for key, value in OURS.items() if key not in names}


TAIL = {"rerank_status": "tail"}
SCORED = {"rerank_status": "scored"}
UNJUDGED = {"rerank_status": "unjudged", "rerank_score": None}
ADDED = [
    ({}, OURS),
    ({"title": 0}, OURS),
    # Keys that something else wrote are left alone.
    ({"rerank_score": "theirs"}, ours_but("rerank_score")),
    # A status that something else wrote: then no later pass could tell whose the others are.
    ({"rerank_status": np.zeros(2)}, {}),
    ({"rerank_status": "draft"}, {}),
    # Those of an earlier pass are written again, but for what the first retriever said.
    ({**TAIL, "rerank_score": None, "retrieval_score": 3, "rerank_rank": 4},
     ours_but("retrieval_score")),
    ({**SCORED, "rerank_score": 7.0}, OURS),
    # An earlier pass in which nothing was scored.
    ({**UNJUDGED, "rerank_final_score": 3.0}, OURS),
    ({**UNJUDGED, "rerank_final_score": None}, OURS),
    # What an earlier pass cannot have written is not its.
    ({**SCORED, "rerank_final_score": None}, ours_but("rerank_final_score")),
    ({**TAIL, "rerank_final_score": "theirs"}, ours_but("rerank_final_score")),
    ({**SCORED, "rerank_score": "theirs", "rerank_rank": "theirs"},
     ours_but("rerank_score", "rerank_rank")),
]  # fmt: skip


@pytest.mark.parametrize(("metadata", "added"), ADDED)
def test_what_is_added(metadata, added):
    assert provenance(ranked([0.9])[0], metadata) == added


@pytest.mark.parametrize(
    ("name", "value", "written", "earlier"),
    [
        ("span", (1, 3), [1, 3], [0, 9]),
        ("probability", 0.25, 0.25, 0.5),
    ],
)
def test_what_only_some_items_have(name, value, written, earlier):
    key = f"rerank_{name}"
    cases = [
        # the item's value, the metadata, what is added
        (None, {}, {}),
        (value, {}, {key: written}),
        (value, {key: "theirs"}, {}),
        (value, {**OURS, key: earlier}, {key: written}),
        (value, {**OURS, key: None}, {key: written}),
        (value, {**OURS, key: "theirs"}, {}),
        # Of an earlier pass, which this one does not confirm.
        (None, {**OURS, key: earlier}, {key: None}),
        (None, {key: earlier}, {}),
    ]
    for own, metadata, added in cases:
        found = provenance(replace(ranked([0.9])[0], **{name: own}), metadata)
        assert {one: found[one] for one in found if one == key} == added


def with_metadata(*metadata):
    given = [Candidate(str(at), f"d{at}", 0.5, data) for at, data in enumerate(metadata)]
    return Reranker(InOrder([0.1, 0.9, 0.5][: len(given)])).rerank("q", given)


@pytest.mark.parametrize(
    ("metadata", "prefix", "positions", "names"),
    [
        ([{}, {"title": 0}, None], "", (), ""),
        ([{"rerank_score": "theirs"}, {}, {"rerank_rank": 2}], "", (0, 2), "rank, score"),
        ([{"rerank_score": "theirs"}], "x_", (), ""),
        ([{"x_rerank_score": "theirs"}], "x_", (0,), "score"),
        ([{}, {"rerank_status": "draft"}], "", (1,), "final_score, rank, score, status"),
        ([{"retrieval_score": 7}], "", (), ""),
        ([OURS, {**SCORED, "rerank_rank": "theirs"}], "", (1,), "rank"),
    ],
)
def test_keys_that_are_kept_are_reported(metadata, prefix, positions, names):
    ranking = with_metadata(*metadata)
    found = naming_kept_keys(ranking, prefix, "meta_prefix")
    if not positions:
        assert found is ranking
        return
    (issue,) = found.report.issues
    assert (issue.code, issue.positions) == ("metadata_kept", positions)
    assert issue.ids == tuple(f"d{position}" for position in positions)
    keys = ", ".join(f"{prefix}rerank_{name}" for name in names.split(", "))
    assert f"was not written: {keys}; " in issue.message
    assert issue.message.endswith("set meta_prefix=")
    assert (found.report.status, found.items) == (ranking.report.status, ranking.items)


def test_results_are_in_the_order_of_the_ranking():
    documents = [{"n": 0}, {"n": 1, "rerank_score": "theirs"}]
    rows = list(results(documents, ranked([0.1, 0.9]), lambda document: document, "x_"))
    assert [(document["n"], score) for document, score, _ in rows] == [(1, 0.9), (0, 0.1)]
    assert [set(added) for *_, added in rows] == [{f"x_{key}" for key in KEYS}] * 2
    (row,) = results([None], ranked([0.5]), lambda document: document)
    assert row[2]["rerank_score"] == 0.5

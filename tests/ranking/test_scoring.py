"""Scorers: which scores are accepted, moved onto the edge of the range, or refused."""

import itertools
import math

import numpy as np
import pytest

from fakes import ByTable, InOrder, Model
from rankings import order
from secondpass import MethodError, Reranker
from secondpass.errors import ConfigurationError
from secondpass.ranking.scoring import (
    ScorerMethod,
    rerank_scores_alone,
    scores_alone,
    to_float,
    to_list,
)
from secondpass.strategies.graded import Graded
from secondpass.types import EngineInfo, Issue

ENGINE = EngineInfo("", "torch", "float32", 1, "up to 8 pairs", "the backend is set")


def test_scores_that_cannot_be_used_leave_their_items_behind_the_scored_ones():
    scorer = InOrder([0.1, float("nan"), 0.9, None, "0.7", True, float("inf")])
    ranking = Reranker(scorer).rerank("q", list("abcdefg"))
    assert order(ranking) == "cabdefg"
    assert [item.status for item in ranking] == ["scored"] * 2 + ["backfilled"] * 5
    assert {issue.code: issue.positions for issue in ranking.report.issues} == {
        "score_not_finite": (1, 6),
        "score_missing": (3,),
        "score_not_a_number": (4, 5),
    }
    assert ranking.report.status == "partial"


@pytest.mark.parametrize(
    ("score", "code", "message"),
    [
        ("high", "score_not_a_number", "the first is not a number but a str"),
        ([1], "score_not_a_number", "the first is not a number but a list"),
        (None, "score_missing", "the first is None"),
        (float("nan"), "score_not_finite", "the first is not finite"),
    ],
)
def test_scores_none_of_which_can_be_used(score, code, message):
    class Wrong(ByTable):
        def score_pairs(self, query, documents):
            return [score for _ in documents]

    (issue,) = Reranker(Wrong(), log_level="debug").rerank("q", ["a", "b"]).report.issues
    assert (issue.code, issue.message) == (code, f"no score could be used; {message}")


def test_batches_that_fail_for_the_same_reason_are_one_issue():
    class Failing(ByTable):
        batch_size = 1

        def score_pairs(self, query, documents):
            if documents != ["a"]:
                raise ValueError(documents[0])
            return super().score_pairs(query, documents)

    reranker = Reranker(Failing(), limits={"deadline": 60}, log_level="debug")
    issues = reranker.rerank("q", list("abcd")).report.issues
    assert [(issue.code, issue.positions) for issue in issues] == [("scorer_raised", (1, 2, 3))]


@pytest.mark.parametrize(
    ("kind", "answer", "kept"),
    [
        ("probability", [0.5, 1.00001, math.nan, -0.00001], [0.5, 1.0, None, 0.0]),
        ("similarity", [0.5, 1.00001, math.inf, -1.00001], [0.5, 1.0, None, -1.0]),
        ("grade", [0, 3, None, 1.5], [0.0, 3.0, None, 1.5]),
        ("logit", [-50, 50, 3, 1], [-50.0, 50.0, 3.0, 1.0]),
    ],
)
def test_scores_are_put_back_onto_the_edge_of_their_range(kind, answer, kept):
    scorer = InOrder(answer, score_kind=kind, scale=(0, 3))
    ranking = Reranker(scorer, log_level="debug").rerank("q", list("abcd"))
    by_position = {item.position: item.rerank_score for item in ranking}
    assert [by_position[at] for at in range(4)] == kept
    assert ranking.report.score_kind == kind


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("probability", [7.2, 3.1, 0.4, -5]),
        ("probability", [0.9, 0.5, 0.4, 1.001]),
        ("similarity", [0.5, -1.5, None, math.nan]),
        ("grade", [0, 3, 3.5, 1.5]),
    ],
)
@pytest.mark.parametrize("limits", [None, {"deadline": 60}])
def test_scores_on_another_scale_are_all_refused(kind, answer, limits):
    scorer = InOrder(answer, score_kind=kind, scale=(0, 3))
    ranking = Reranker(scorer, limits=limits, log_level="debug").rerank("q", list("abcd"))
    assert (ranking.report.status, order(ranking)) == ("unchanged", "abcd")
    assert [issue.code for issue in ranking.report.issues] == ["score_out_of_range"]


@pytest.mark.parametrize("member", [{"batch_size": "32"}, {"batch_size": 0}, {"score_kind": "x"}])
def test_a_scorer_that_says_nonsense_of_itself_is_refused(member):
    with pytest.raises(ConfigurationError, match=next(iter(member))):
        Reranker(ByTable(**member))


@pytest.mark.parametrize("scale", [(-1.7e308, 1.7e308), (0, math.inf), (1, 1), (0, 10**400)])
def test_scale_without_a_finite_width_is_refused(scale):
    with pytest.raises(ConfigurationError, match="scale"):
        Reranker(InOrder([1.0], score_kind="grade", scale=scale))
    with pytest.raises(ConfigurationError, match="scale"):
        Graded(Model(), scale=scale)


class TorchBoolean:
    """As torch.tensor(True) looks here, whose import takes seconds."""

    dtype = "torch.bool"

    def __float__(self):
        return 1.0


def test_numbers_become_plain_floats():
    for value in (np.float32(0.5), np.float64(0.5), 0.5, np.array(0.5)):
        number = to_float(value)
        assert (type(number), number) == (float, 0.5)
    for value in (True, np.True_, np.array(True), TorchBoolean(), "1", None, [1], 1j):
        assert to_float(value) is None


@pytest.mark.parametrize("scores", [[0.5, 1.0], (0.5, 1.0), np.array([0.5, 1.0]), iter([0.5, 1.0])])
def test_scores_become_a_list(scores):
    assert [float(score) for score in to_list(scores, 2)] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.5], "returned 1 score for 2 texts"),
        ([0.5, 1.0, 2.0], "returned more scores for 2 texts"),
        (itertools.count(), "returned more scores for 2 texts"),
        *((value, "not a list of scores") for value in (5, None, "01", b"01")),
        # These have no order.
        *((value, "not a list of scores") for value in ({0.5: 1, 1.0: 2}, {0.5, 1.0})),
    ],
)
def test_what_is_no_list_of_scores(scores, message):
    with pytest.raises(MethodError, match=message):
        to_list(scores, 2)


@pytest.mark.parametrize(
    ("texts", "scores", "members", "codes"),
    [
        ("abc", [2, 2, 2], {}, ["scores_equal"]),
        ("abcd", [2, 2, None, 2], {}, ["score_missing", "scores_equal"]),
        ("aab", [2, 2, 2], {}, []),  # two different texts
        ("abcd", [2, 2, 2, 3], {}, []),
        ("abc", [0.5, 0.5, 0.5], {"score_kind": "rank"}, []),
        ("abc", [2, 2, 2], {"engine": None}, []),  # as `lexical`: no model
    ],
)
def test_a_model_that_gives_different_texts_one_score(texts, scores, members, codes):
    scorer = InOrder(scores, **{"engine": ENGINE, **members})
    report = Reranker(scorer).rerank("q", list(texts)).report
    assert [issue.code for issue in report.issues] == codes
    assert report.status == ("partial" if None in scores else "ok")


@pytest.mark.parametrize(
    ("doubt", "status"), [("it is odd", "degraded"), (None, "ok"), (True, "ok")]
)
def test_a_scorer_says_why_its_model_is_doubtful(doubt, status):
    report = Reranker(InOrder([1, 2], doubt=doubt)).rerank("q", ["a", "b"]).report
    assert report.status == status
    assert [issue.message for issue in report.issues] == (
        ["it is odd"] if doubt == "it is odd" else []
    )


@pytest.mark.parametrize(
    ("member", "code"),
    [("truncated", "text_truncated"), ("query_truncated", "query_truncated")],
)
@pytest.mark.parametrize(
    ("returned", "positions"),
    [
        (lambda: [2, 0, 2], (0, 2)),
        (lambda: [], None),
        (lambda: [3], None),
        (lambda: [-1], None),
        (lambda: ["a"], None),
        (lambda: None, None),
        (lambda: 1 / 0, None),
    ],
)
def test_texts_that_were_not_read_whole(member, code, returned, positions):
    scorer = ByTable(**{member: lambda query, documents: returned()})
    report = Reranker(scorer).rerank("q", ["a", "b", "c"]).report
    assert report.status == "ok"
    expected = [] if positions is None else [(code, positions)]
    assert [(issue.code, issue.positions) for issue in report.issues] == expected


@pytest.mark.parametrize(
    ("members", "order", "rerank"),
    [
        ({}, True, True),
        ({"pointwise": False}, False, False),
        ({"pointwise": False, "pair_scores": True}, False, True),
        ({"pointwise": False, "pair_scores": 1}, False, False),
        ({"score_kind": "rank"}, False, False),
    ],
)
def test_rerank_scores_may_be_of_pairs_where_the_order_is_of_the_list(members, order, rerank):
    method = ScorerMethod(ByTable(**members))
    assert (scores_alone(method), rerank_scores_alone(method)) == (order, rerank)


@pytest.mark.parametrize("issues", [[Issue("cache_failed", "the score cache is full")], None, 1])
def test_a_report_says_what_is_wrong_with_a_cache(issues):
    report = Reranker(ByTable(cache_issues=lambda: issues)).rerank("q", ["a", "bb"]).report
    expected = [("cache_failed", "by-table")] if isinstance(issues, list) else []
    assert [(issue.code, issue.method) for issue in report.issues] == expected
    assert report.status == "ok"

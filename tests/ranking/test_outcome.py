"""What a judgement makes of the candidates."""

import pytest

from fakes import ByTable
from secondpass import Candidate
from secondpass.effects import Call, Judgement
from secondpass.ranking.blending import Blend
from secondpass.ranking.floors import Floor
from secondpass.ranking.methods import to_method
from secondpass.ranking.ordering import LostInTheMiddle
from secondpass.ranking.outcome import Outcome
from secondpass.ranking.rendering import Rendering

METHOD = to_method(ByTable())
CANDIDATES = [Candidate(f"text {number}", f"id {number}", score=0.5) for number in range(5)]


def outcome(*scores, head=range(4), candidates=CANDIDATES, **judgement):
    """The outcome of a judgement of the candidates within the depth."""
    result = Outcome(candidates, head, head, [], print, Call())
    result.apply(Judgement(list(scores), **judgement), "m", Rendering())
    return result


def codes(result):
    return {issue.code: issue.positions for issue in result.issues}


def test_statuses():
    result = outcome(0.5, None, None, None, unjudged=frozenset({1}), beyond=frozenset({2}))
    assert result.trace.status == ["scored", "unjudged", "tail", "backfilled", "tail"]
    assert result.trace.rerank_score == [0.5, None, None, None, None]


def test_the_order_is_by_score_then_by_status():
    result = outcome(0.1, None, 0.9, None, beyond=frozenset({1}))
    assert result.rank(METHOD, None, None) == ([2, 0, 3, 1], [])
    assert result.trace.final_score == [0.1, None, 0.9, None, None]


@pytest.mark.parametrize("original", [0.0, 0.3])
def test_logits_that_a_blend_makes_equal_decide_ties(original):
    result = outcome(40.0, 50.0, 60.0, 60.0)
    blend = Blend(original, "sigmoid")
    assert result.rank(METHOD, blend, None) == ([2, 3, 1, 0], [])
    assert len({*result.trace.final_score[:4]}) == 1


def test_the_floor():
    result = outcome(0.1, 0.5, 0.9, None)
    assert result.rank(METHOD, None, Floor(0.5)) == ([2, 1, 3], [0])
    assert result.trace.floor == Floor(0.5)


def test_candidates_of_failed_calls_keep_their_places_above_a_floor():
    result = outcome(None, 0.1, None, 0.9, unjudged=frozenset({0, 2}))
    assert result.rank(METHOD, None, Floor(0.5)) == ([0, 3, 2], [1])


@pytest.mark.parametrize(
    ("floor", "blend", "applied"),
    [
        (Floor(0.5), Blend(0.5, "none"), True),
        (Floor(0.5), None, False),
        (Floor(0.5, "rerank"), None, False),
    ],
)
def test_a_floor_is_not_applied_to_scores_of_another_scale(floor, blend, applied):
    weight = None if applied else 0.5
    result = outcome(0.1, 0.2, 0.6, 0.9, original=weight)
    order, below = result.rank(METHOD, blend, floor)
    assert (len(order), len(below)) == ((2, 2) if applied else (4, 0))
    assert ("floor_not_applied" in codes(result)) is not applied
    assert result.degraded_by == (set() if applied else {"original"})


def test_missing_retrieval_scores_are_reported():
    candidates = [Candidate("a", score=0.5), Candidate("b"), Candidate("c", score=5.0)]
    result = outcome(0.1, 0.5, 0.9, head=range(3), candidates=candidates)
    result.rank(METHOD, Blend(0.5, "none"), None)
    assert codes(result) == {"original_missing": (1,), "original_out_of_range": (2,)}


def reordered(result, ordering, order=(2, 0, 1), top_k=None):
    plan = result.reorder(list(order), ordering, top_k)
    try:
        while True:
            next(plan)
    except StopIteration as stop:
        return stop.value


def test_an_ordering():
    result = outcome(0.1, 0.2, 0.3, 0.4)
    assert reordered(result, lambda items: items[::-1]) == [1, 0, 2]
    assert (result.trace.before, result.trace.ordering) == ([2, 0, 1], "<lambda>")
    assert result.order_followed


def test_an_arrangement_is_one_of_the_best():
    result = outcome(0.1, 0.2, 0.3, 0.4)
    assert reordered(result, LostInTheMiddle(), (3, 2, 1, 0), top_k=3) == [3, 1, 2, 0]


def test_an_ordering_that_loses_items_is_not_followed():
    result = outcome(0.1, 0.2, 0.3, 0.4)
    assert reordered(result, lambda items: items[1:]) == [2, 0, 1]
    assert ("order_refused" in codes(result), result.order_followed) == (True, False)

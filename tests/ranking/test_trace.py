"""What a ranking keeps of its pass."""

import functools

import pytest

from secondpass import Candidate
from secondpass.effects import Call
from secondpass.ranking.ordering import LostInTheMiddle
from secondpass.ranking.outcome import Outcome
from secondpass.ranking.trace import Trace


def trace(**more):
    values = {
        "ids": ["a", "b"],
        "scores": [0.5, "high"],
        "status": ["scored", "tail"],
        "rerank_score": [0.9, None],
        "final_score": [0.7, None],
        "stage_scores": {0: (0.1, 0.9)},
        "spans": {0: (0, 3)},
    }
    return Trace(**{**values, **more})


CANDIDATES = [
    Candidate("text", "a", 0.5, {"year": 7}),
    Candidate("b", metadata={"rerank_span": [1, 2], "rerank_probability": 1}),
]


def items(order, **more):
    outcome = Outcome(CANDIDATES, [0], [0], [], print, Call())
    outcome.trace = trace(**more)
    return outcome.items(order)


def test_items():
    second, first = items([1, 0], probabilities={0: 0.8})
    assert (first.rank, first.position, first.status, first.candidate) == (
        2,
        0,
        "scored",
        CANDIDATES[0],
    )
    assert (first.rerank_score, first.final_score, first.stage_scores) == (0.9, 0.7, (0.1, 0.9))
    assert (first.span, first.probability) == ((0, 3), 0.8)
    assert first.metadata == {
        "year": 7,
        "rerank_score": 0.9,
        "rerank_span": [0, 3],
        "rerank_probability": 0.8,
    }
    assert (second.rank, second.stage_scores, second.span) == (1, (), None)


def test_what_an_earlier_ranking_left_in_the_metadata_is_cleared():
    (item,) = items([1])
    assert item.metadata == dict.fromkeys(["rerank_score", "rerank_span", "rerank_probability"])
    assert CANDIDATES[1].metadata["rerank_span"] == [1, 2]


def by_year(items):
    return items


class Own:
    __call__ = None

    @property
    def __name__(self):
        raise LookupError


@pytest.mark.parametrize(
    ("ordering", "name"),
    [
        (LostInTheMiddle(), "lost_in_the_middle"),
        (by_year, "by_year"),
        (functools.partial(by_year), "partial"),
        (Own(), "Own"),
    ],
    ids=["registered", "a function", "without a name", "one that raises"],
)
def test_names_of_orderings(ordering, name):
    kept = trace()
    kept.reordered([1, 0], ordering)
    assert (kept.before, kept.ordering) == ([1, 0], name)

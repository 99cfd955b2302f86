"""Rerank scores as probabilities."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.ranking.floors import Probabilities

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PLATT = st.builds(
    lambda slope, intercept: Probabilities(slope=slope, intercept=intercept),
    FLOATS.filter(lambda value: value >= 0),
    FLOATS,
)


@st.composite
def isotonic(draw):
    scores = sorted(draw(st.sets(FLOATS, min_size=1, max_size=6)))
    values = sorted(draw(st.lists(st.floats(0, 1), min_size=len(scores), max_size=len(scores))))
    return Probabilities(scores=scores, values=values)


@given(PLATT | isotonic(), st.lists(FLOATS, min_size=2))
def test_probabilities_keep_the_order(mapping, scores):
    values = [mapping.of(score) for score in sorted(scores)]
    assert all(0 <= value <= 1 for value in values)
    assert all(low <= high for low, high in pairwise(values))


def test_items_have_them_and_nothing_else_changes():
    candidates = [
        Candidate("a"),
        Candidate("b", metadata={"rerank_probability": 0.3}),
        Candidate(None),
    ]
    scorer = ByTable({"a": 0.25, "b": 3.0})
    plain = Reranker(scorer, log_level="debug").rerank("q", candidates)
    mapping = Probabilities(scores=[0.0, 0.5], values=[0.1, 0.3])
    ranking = Reranker(scorer, probabilities=mapping, log_level="debug").rerank("q", candidates)
    assert [item.probability for item in ranking] == pytest.approx([0.3, 0.2, None])
    assert [item.final_score for item in ranking] == [item.final_score for item in plain]
    assert ranking[1].metadata["rerank_probability"] == pytest.approx(0.2)
    assert plain[0].metadata["rerank_probability"] is None
    assert "rerank_probability" not in ranking[2].metadata
    assert ranking.to_dict()["ranking"][0]["probability"] == 0.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give one of them"),
        ({"slope": 1.0}, "give one of them"),
        ({"slope": 1.0, "intercept": 0.0, "scores": [0.0], "values": [0.0]}, "give one of them"),
        ({"slope": -1.0, "intercept": 0.0}, "slope: must be greater than or equal to 0"),
        ({"scores": [0.0, 1.0], "values": [0.5]}, "values: must have one number for each score"),
        ({"scores": [1.0, 1.0], "values": [0.5, 0.6]}, "scores: must rise"),
        ({"scores": [0.0, 1.0], "values": [0.5, 0.4]}, "values: must not fall"),
        ({"scores": [0.0], "values": [1.5]}, "values[0]: must be less than or equal to 1"),
    ],
)
def test_wrong_mappings(settings, message):
    with pytest.raises(ConfigurationError) as caught:
        Reranker("lexical", probabilities=settings)
    assert message in str(caught.value)

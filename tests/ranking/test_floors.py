"""Thresholds on final and rerank scores, lists without anything relevant, and probabilities."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable, InOrder, Judging, numbered, shown_in
from fakes import ranked as ranked_reply
from secondpass import Candidate, ConfigurationError, InputError, Reranker
from secondpass.effects import Judgement
from secondpass.ranking.blending import Blend
from secondpass.ranking.floors import Fit, Floor, Probabilities, to_floor
from secondpass.types import Threshold

CANDIDATES = [Candidate("a", score=3.0), Candidate("b", score=2.0), Candidate("c", score=1.0)]
SCORES = {"a": 0.1, "b": 0.9, "c": 0.5}
MINMAX = Blend(0.9, "minmax")


def ranked(threshold, blend=None, scores=SCORES, **options):
    kind = "probability" if blend is not None and blend.by_value else "unbounded"
    scorer = ByTable(scores, score_kind=kind)
    reranker = Reranker(scorer, floor=threshold, blend=blend, log_level="debug")
    return reranker.rerank("q", CANDIDATES, **options)


@pytest.mark.parametrize(
    ("floor", "blend", "positions"),
    [
        (0.5, None, (1, 2)),
        (Floor(0.5), None, (1, 2)),
        ({"at": 0.5, "on": "rerank"}, None, (1, 2)),
        (yaml.safe_load("{at: 0.5, on: rerank}"), MINMAX, (1, 2)),
        ({"at": 0.5, "on": "rerank"}, MINMAX, (1, 2)),
        ({"at": 0.2, "on": "rerank"}, Blend(0.5, "rrf"), (1, 2)),
        (0.5, MINMAX, (1, 2)),  # the final scores are 0.9, 0.55 and 0.05
        ({"at": 0.5, "on": "final"}, None, (1, 2)),
        (1.0, Blend(0.5), (0, 1)),  # the final scores are 1.55, 1.45 and 0.75
        ({"at": 0.5, "on": "rerank"}, Blend(0.5), (1, 2)),
        ({"at": 0.91, "on": "rerank"}, MINMAX, ()),
    ],
)
def test_what_the_threshold_is_on(floor, blend, positions):
    ranking = ranked(floor, blend)
    assert ranking.order == positions
    dropped = tuple(sorted({0, 1, 2} - {*positions}))
    assert ranking.report.left_out == {"floor": dropped}
    on = "final" if floor == 1.0 else "rerank"
    assert ranking.report.threshold == Threshold(floor if on == "final" else mock.ANY, on)
    text = str(ranking.explain(position=dropped[0]))
    assert f"{on} score" in text
    assert "is below" in text
    assert "its score is below the threshold" in text


@pytest.mark.parametrize(
    ("nothing", "scores", "found"),
    [
        (0.5, SCORES, False),
        (0.9, SCORES, False),
        (0.91, SCORES, True),
        (None, SCORES, None),
        (0.91, {**SCORES, "a": None}, None),
        (0.5, {**SCORES, "a": None}, False),
    ],
)
def test_nothing_relevant(nothing, scores, found):
    for blend in (None, MINMAX):
        ranking = ranked(Floor(0.0, "rerank", nothing), blend, scores)
        assert ranking.report.nothing_relevant is found
        assert ranking.report.to_dict()["nothing_relevant"] is found
        assert ("nothing relevant" in repr(ranking)) is (found is True)


def test_not_applied_to_scores_that_the_method_doubts():
    floor = Floor(0.6, "rerank", 0.95)
    doubting = Judging(Judgement([0.1, 0.9, 0.5], original=0.5), score_kind="similarity")
    report = Reranker(doubting, floor=floor, blend=MINMAX).rerank("q", CANDIDATES).report
    assert (report.left_out, report.nothing_relevant) == ({}, None)
    assert [issue.code for issue in report.issues] == ["floor_not_applied"]


@pytest.mark.parametrize(
    ("floor", "message"),
    [
        ("high", "floor: must be a number or a mapping, not 'high'"),
        (True, "floor: must be a number or a mapping, not True"),
        (float("nan"), "floor: must be a finite number, not nan"),
        ({"on": "rerank"}, "floor.at: is required"),
        ({"at": 1.0, "on": "rerank", True: "final"}, "floor: has the key 'on' twice"),
        ({"at": 1.0, "on": "blend"}, "floor.on: must be 'final' or 'rerank'"),
        ({"at": 1.0, "keep": 1.0}, "floor.keep: must be less than 1"),
        ({"at": 1.0, "keeps": 0.9}, "floor.keeps: unknown key; did you mean 'keep'?"),
        ({"at": 1.0, "on": "final"}, "floor.on: final scores by 'minmax' are relative to the list"),
    ],
)
def test_wrong_thresholds(floor, message):
    with pytest.raises(ConfigurationError) as caught:
        Reranker("lexical", floor=floor, blend=MINMAX)
    assert message in str(caught.value)


def model(_prompt):
    raise AssertionError


RRF = {"original": 0.5, "normalize": "rrf"}
LISTWISE, BLOCKS = {"type": "listwise", "llm": model}, {"type": "blocks", "llm": model}
RANKS = [
    ({"method": LISTWISE, "floor": {"at": 0.5}}, "floor: the scores of 'listwise"),
    ({"method": BLOCKS, "floor": 0.5, "blend": RRF}, "floor: the scores of 'blocks"),
    ({"method": "lexical", "fallback": [{**LISTWISE, "floor": 0.5}]}, "fallback[0].floor: the sc"),
]


@pytest.mark.parametrize(("config", "message"), RANKS)
def test_ranks_have_no_threshold(config, message):
    with pytest.raises(ConfigurationError) as caught:
        Reranker(**config)
    assert message in str(caught.value)
    assert "by model' are ranks" in str(caught.value)
    assert "use top_k" in str(caught.value)


def test_a_call_gives_ranks_no_threshold():
    reranker = Reranker({"type": "listwise", "llm": model})
    with pytest.raises(InputError, match=r"floor: the scores of 'listwise by model' are ranks"):
        reranker.rerank("q", CANDIDATES, floor=0.5)


def test_a_fallback_of_ranks_says_why_it_has_no_threshold():
    fallback = {"type": "listwise", "llm": lambda message: ranked_reply(shown_in(message))}
    broken = ByTable(dict.fromkeys(numbered(range(3))))
    reranker = Reranker(broken, floor=0.5, fallback=[fallback], log_level="debug")
    ranking = reranker.rerank("q", numbered(range(3)))
    (issue,) = (issue for issue in ranking.report.issues if issue.code == "floor_not_applied")
    assert issue.message.endswith("this fallback has none: its scores are ranks")
    assert ranking.report.threshold is None


@pytest.mark.parametrize("value", [1, np.int64(1), np.float32(1), Decimal(1), Fraction(1)])
def test_numbers_of_all_types(value):
    assert Reranker("lexical", floor=value).to_config()["floor"] == 1.0
    assert type(to_floor(value)) is float


class Instructed(InOrder):
    takes_instruction = True

    def score_pairs(self, query, documents, *, instruction=None):
        return super().score_pairs(query, documents)


def test_rankings_that_differ_from_the_fit_say_so():
    fitted = Fit("in-order", depth=2)
    reranker = Reranker(InOrder([0.3, 0.2]), depth=2, floor=Floor(0.0, keep=0.9, fitted=fitted))
    assert reranker.rerank("q", CANDIDATES).report.issues == ()
    [issue] = reranker.rerank("q", CANDIDATES, depth=1).report.issues
    assert (issue.code, issue.message) == ("fitted_otherwise", "was fitted for depth 2, not 1")
    [issue] = reranker.rerank("q", CANDIDATES, instruction="recent").report.issues
    assert issue.code == "instruction_not_used"  # so the scores are those of the fit
    reranker = Reranker(Instructed([0.3, 0.2]), depth=2, floor=Floor(0.0, keep=0.9, fitted=fitted))
    [issue] = reranker.rerank("q", CANDIDATES, instruction="recent").report.issues
    assert issue.code == "fitted_otherwise"
    assert issue.message == "was fitted for no instruction of the call"


def test_a_threshold_of_the_call_leaves_the_fit_of_nothing():
    fitted = Fit("by-table", depth=100)
    for nothing, codes in ((0.95, ["fitted_otherwise"]), (None, [])):
        ranking = ranked(Floor(0.0, "rerank", nothing, 0.9, fitted), MINMAX, floor=0.6, depth=2)
        assert ranking.order == (1, 2)
        assert ranking.report.nothing_relevant is (nothing and True)
        assert [issue.code for issue in ranking.report.issues] == codes


def test_a_threshold_that_was_fitted_for_another_model_does_not_load():
    fit = {"method": "cross_encoder", "model": "cross-encoder/ms-marco-MiniLM-L6-v2", "depth": 100}
    message = r"floor.fitted.model: was fitted for another model, 'cross-encoder/ms-marco-MiniLM"
    with pytest.raises(ConfigurationError, match=message):
        Reranker.from_config({"preset": "default", "floor": {"at": 0.5, "fitted": fit}})


# ---------------------------------------------------------------------- probabilities


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

"""When the pass runs: conditions on the query and the first stage's results."""

import math

import pytest

from secondpass import Candidate, ConfigurationError
from secondpass.ranking.when import Agreement, Range, Unknown, When, signal


def scored(*scores):
    return [Candidate(f"text {i}", score=score) for i, score in enumerate(scores)]


FALLING = scored(10, 4, 3, 2)


@pytest.mark.parametrize(
    ("name", "candidates", "query", "value"),
    [
        ("margin", FALLING, "q", 0.75),
        ("margin", scored(10, 10, 5), "q", 0.0),
        ("margin", scored(*range(100, 0, -1)), "q", 1 / 19),
        ("margin", scored(1e308, 0.0, -1e308), "q", 0.5),
        ("top_zscore", FALLING, "q", 7 / math.sqrt(2 / 3)),
        ("top_score", FALLING, "q", 10),
        ("top_score", scored(2), "q", 2),
        ("words", [], "how do I cancel", 4),
        ("words", [], "返品方法", 3),
        ("english", [Candidate("this is the text of it")], "what is that", 8 / 9),
        ("english", [Candidate("Der Text ist auf Deutsch")], "Wer ist das", 0.0),
        ("english", [Candidate(None)], "with some words", 2 / 3),
    ],
)
def test_signals(name, candidates, query, value):
    assert signal(name, query, candidates) == pytest.approx(value)


UNKNOWN = {
    "no scores": (scored(None, None, None), "3 of the first 3 have no score"),
    "one without": (scored(3, None, 1), "1 of the first 3 have no score"),
    "not a number": (scored(3, math.nan, 1), "1 of the first 3 have no score"),
    "distances": (scored(0.1, 0.2, 0.3), "retrieval scores do not fall along the list"),
    "constant": (scored(1, 1, 1), "all retrieval scores are equal"),
    "denormal": (scored(5e-324, 0, 0), "all retrieval scores are equal"),
    "two": (scored(3, 1), ""),
    "none": ([], ""),
}


@pytest.mark.parametrize("name", ["margin", "top_zscore"])
@pytest.mark.parametrize("case", UNKNOWN)
def test_scores_that_say_nothing(case, name):
    candidates, reason = UNKNOWN[case]
    with pytest.raises(Unknown) as raised:
        signal(name, "q", candidates)
    assert str(raised.value) == reason
    decision = When(**{name: {"below": 0.5}}).decide("q", candidates)
    assert decision == (None, {name: reason} if reason else {})


def test_only_the_first_score_differs():
    with pytest.raises(Unknown, match="all retrieval scores but the first are equal"):
        signal("top_zscore", "q", scored(3, 1, 1))


@pytest.mark.parametrize(
    ("settings", "skip"),
    [
        ({"margin": {"below": 0.8}}, None),
        ({"margin": {"below": 0.75}}, "margin 0.75 is not below 0.75"),
        ({"margin": {"at_least": 0.75}}, None),
        ({"margin": {"at_least": 0.8}}, "margin 0.75 is not at least 0.8"),
        ({"words": {"at_least": 2, "below": 5}}, None),
        ({"words": {"at_least": 4, "below": 5}}, "words 3 is not at least 4"),
        # Every condition has to hold; one that is not known counts as met.
        ({"margin": {"below": 0.8}, "words": {"at_least": 4}}, "words 3 is not at least 4"),
        ({"agreement": {"fields": ["a", "b"], "below": 0.5}}, None),
    ],
)
def test_decisions(settings, skip):
    assert When(**settings).decide("how to cancel", FALLING)[0] == skip


def found(**fields):
    return Candidate("", metadata=fields)


@pytest.mark.parametrize(
    ("settings", "candidates", "value"),
    [
        ({"first": 1}, [found(a=9, b=9), found(a=8, b=1)], 1.0),
        ({"first": 1}, [found(a=9, b=1), found(a=8, b=9)], 0.0),
        ({"first": 2}, [found(a=9, b=1), found(a=8), found(b=7)], 0.5),
        ({"first": 1, "ranks": True}, [found(a=1, b=2), found(a=2, b=1)], 0.0),
        ({"first": 1, "ranks": True}, [found(a=1, b=1), found(a=2, b=2)], 1.0),
        ({"first": 10}, [found(a=9, b=9), found(a=8, b=1)], 1.0),
        ({"first": 1}, [found(a="9", b=True), found(a=8, b=1)], 1.0),
    ],
)
def test_agreement(settings, candidates, value):
    assert Agreement(["a", "b"], below=0.5, **settings).value(candidates) == value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "one of margin, top_zscore, top_score, agreement, words, english is required"),
        ({"depth": 3}, "is required"),
        ({"margin": {"below": 50}}, "margin.below: must be less than or equal to 1"),
        ({"margin": Range(below=50)}, "margin.below: must be less than or equal to 1"),
        ({"english": {"at_least": -0.1}}, "english.at_least: must be greater than or equal to 0"),
        ({"agreement": {"fields": ["a", "b"], "below": 3}}, "agreement.below: must be less than"),
        ({"margin": {}}, "margin: one of below, at_least is required"),
        ({"margin": {"below": 1, "at_least": 1}}, "margin.below: must be larger than at_least (1)"),
        (
            {"margin": 0.3},
            "margin: must be a mapping such as {below: 0.3}, not 0.3; its keys are: below, at",
        ),
        ({"margn": {"below": 1}}, "did you mean 'margin'?"),
        ({"margin": {"below": 1}, "depth": -1}, "depth: must be greater than or equal to 0"),
        ({"agreement": {"fields": ["a"], "below": 1}}, "agreement.fields: must have at least 2"),
        ({"agreement": {"fields": ["a", "a"], "below": 1}}, "fields: names a field twice"),
        ({"agreement": {"fields": ["a", "b"]}}, "one of below, at_least is required"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError) as raised:
        When(**settings)
    assert message in str(raised.value)

"""What a fit is bound to."""

import pytest

from fakes import ByTable
from secondpass import Reranker
from secondpass.ranking.floors import Fit
from secondpass_evaluation.calibration.calibrating import fingerprint

LEXICAL = {"method": "lexical", "depth": 20, "blend": {"original": 0.3, "normalize": "minmax"}}


def of(stage="given", blended=True, **changes):
    reranker = Reranker.from_config({**LEXICAL, **changes})
    return fingerprint(reranker, stage, blended=blended)


def test_its_parts_are_settings_of_a_fit():
    found = of()
    assert found["method"] == "lexical"
    assert (found["depth"], found["first_stage"]) == (20, "given")
    assert found["blend"] == Reranker.from_config(LEXICAL).blend
    assert Fit(**found).settings == found["settings"]
    assert found == of()


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"depth": 10}, "depth"),
        ({"stage": "lexical"}, "first_stage"),
        ({"method": {"type": "lexical", "k1": 2.0}}, "settings"),
        ({"blend": {"original": 0.4, "normalize": "minmax"}}, "blend"),
        ({"blended": False}, "blend"),
        ({"render": {"fields": ["title"]}}, "template"),
        ({"top_k": 3}, None),
        ({"fallback": "embedded"}, None),
    ],
    ids=["depth", "stage", "settings", "blend", "unblended", "render", "top_k", "fallback"],
)
def test_it_changes_with_what_scores_depend_on(changes, part):
    usual, changed = of(), of(**changes)
    assert {name for name in usual if usual[name] != changed[name]} == ({part} - {None})


def test_precision_is_that_of_the_rankings():
    reranker = Reranker.from_preset("embedded")
    assert fingerprint(reranker)["precision"] is None
    ranking = reranker.rerank("owl", ["an owl", "a train"])
    assert fingerprint(reranker, rankings=[ranking, ranking])["precision"]


def test_nothing_is_known_of_the_settings_of_an_object():
    found = fingerprint(Reranker(ByTable()))
    assert (found["method"], found["settings"], found["template"]) == ("by-table", None, None)

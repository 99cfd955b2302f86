"""The table of corrected figures."""

import pytest

from reports import make
from secondpass_evaluation import Corrected, CorrectedResult
from secondpass_evaluation.report.tables import corrected
from secondpass_evaluation.report.text import NONE


def figures(mean, low, high, measure="nDCG@10"):
    return Corrected(measure, 30, 8, 0.5, mean, low, high, 0.4, 0.3, 0.6, 0.8, 0.95)


def table(*items, **options):
    results = tuple(
        CorrectedResult("lexical+x", figures(0.45, 0.4, 0.5, measure), "lexical", difference)
        for measure, difference in items
    )
    return corrected(make(corrected=results), **options)


def test_nothing_corrected():
    assert (corrected(make()).rows, corrected(make()).columns) == ((), ())


def test_figures_of_a_system():
    found = table(("nDCG@10", None), ("RR", None))
    assert [cell.text for cell in found.rows[0]] == [
        "lexical+x", "nDCG@10", "0.5000", "0.4500", "0.4000 to 0.5000", "0.3000 to 0.6000",
        NONE, NONE,
    ]  # fmt: skip
    assert [row[1].text for row in found.rows] == ["nDCG@10", "RR"]
    assert "A model has judged all 30 queries, and a person 8 of them" in found.notes[0]
    assert "Intervals are of 95%" in found.notes[0]


def test_only_the_first_measure():
    found = table(("nDCG@10", None), ("RR", None), first_only=True)
    assert [row[1].text for row in found.rows] == ["nDCG@10"]


@pytest.mark.parametrize(
    ("mean", "low", "high", "tone"),
    [(0.1, 0.05, 0.15, "gain"), (-0.1, -0.15, -0.05, "loss"), (0.1, -0.05, 0.25, "")],
    ids=["gain", "loss", "chance"],
)
def test_only_what_is_not_chance_has_a_colour(mean, low, high, tone):
    cells = table(("nDCG@10", figures(mean, low, high))).rows[0][-2:]
    assert [cell.text for cell in cells] == [f"{mean:+.4f}", f"{low:+.4f} to {high:+.4f}"]
    assert [cell.tone for cell in cells] == [tone, tone]

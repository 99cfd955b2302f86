import re
from dataclasses import replace

import pytest

from reports import EDGES, make, with_reranker, without
from secondpass_evaluation import Cost
from secondpass_evaluation.report import charts
from secondpass_evaluation.report.tables import (
    TABLES,
    costs,
    differences,
    issues,
    overview,
    quality,
    tables,
)
from secondpass_evaluation.report.text import NONE


def cells(table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_rows_fit_their_columns(comparison):
    for table in tables(comparison):
        assert {len(row) for row in table.rows} <= {len(table.columns)}
        assert table.rows or table.notes
        assert table.columns[0].kind == "text"


def test_keys_are_unique():
    keys = [build(make()).key for build in TABLES]
    assert len(set(keys)) == len(keys)


def test_times_end_to_end_include_the_search():
    found = make()
    assert cells(costs(found))[0][3] == cells(costs(found))[0][1] == "2.1"
    reranking, together = (float(cells(costs(found))[1][index]) for index in (1, 3))
    assert together == pytest.approx(reranking + 2.1)
    assert cells(overview(found))[1][5] == f"{together:.1f}"
    # Candidates that are part of the suite have no search time.
    given = replace(found, results=(replace(found.results[0], cost=Cost()), *found.results[1:]))
    assert cells(costs(given))[1][3] == cells(costs(given))[1][1]


@pytest.mark.parametrize(
    ("comparison", "tone"),
    [(make(), "gain"), (make(gain=-0.1), "loss"), (make(p=0.3), ""), (make(gain=-0.1, p=0.3), "")],
    ids=["gain", "loss", "perhaps chance", "perhaps a loss"],
)
def test_a_difference_has_the_same_colour_everywhere(comparison, tone):
    assert overview(comparison).rows[1][2].tone == tone
    assert differences(comparison).rows[0][2].tone == tone
    border = {"gain": "verdict pays", "loss": "verdict not", "": "verdict "}[tone]
    with without("matplotlib"):
        assert f'class="{border}"' in comparison.to_html()
    for plot, width in ((charts.latency, 1.2), (charts.differences, 1.6)):
        intervals = rf"stroke: var\(--(gain|loss|muted)\); stroke-width: {width}"
        assert set(re.findall(intervals, plot(comparison, "p-"))) == {tone or "muted"}


def test_best_unless_all_are_alike():
    best = [[cell.best for cell in row] for row in quality(make()).rows]
    assert best == [[False, False, False], [False, True, True]]
    alike = with_reranker(make(), evaluation=make().results[0].evaluation)
    assert not any(cell.best for row in quality(alike).rows for cell in row)


DIFFERENCES = {
    "significant": (make(), "yes", "gain"),
    "significant loss": (make(gain=-0.1), "yes", "loss"),
    "chance": (make(p=0.3), "no", ""),
    "few queries": (make(5), "too few queries", ""),
    "no p": (make(p=None), NONE, ""),
}


@pytest.mark.parametrize(
    ("comparison", "text", "tone"), DIFFERENCES.values(), ids=DIFFERENCES.keys()
)
def test_significance(comparison, text, tone):
    row = differences(comparison).rows[0]
    assert row[6].text == text
    assert row[2].tone == row[3].tone == row[5].tone == tone


def test_intervals_that_are_not_known():
    assert cells(differences(make(low=None, high=None)))[0][3] == NONE


def test_issues_or_that_all_is_ok():
    assert cells(issues(make())) == [
        ["lexical+rerank", "1 degraded (a stage or a method failed), 5 ok", "1 timeout"]
    ]
    fine = issues(with_reranker(make(), statuses={"ok": 6}, issues={}))
    assert (fine.rows, fine.notes) == ((), ("Every ranking was ok.",))
    first = replace(make(), results=make().results[:1])
    assert not issues(first).notes
    cut = issues(with_reranker(make(), statuses={"ok": 6}, issues={}, truncated=0.125))
    assert "12.5% of the candidates" in cut.notes[-1]

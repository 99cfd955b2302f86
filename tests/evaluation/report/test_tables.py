import re
from dataclasses import replace

import pytest

from reports import EDGES, evaluation, make, with_reranker, without
from secondpass_evaluation import Corrected, CorrectedResult, Cost
from secondpass_evaluation.report import charts
from secondpass_evaluation.report.markdown import report
from secondpass_evaluation.report.page import all_queries
from secondpass_evaluation.report.tables import (
    corrected,
    costs,
    differences,
    issues,
    overview,
    quality,
    tables,
)
from secondpass_evaluation.report.text import KNOWN, NONE, timed


def cells(table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_rows_fit_their_columns(comparison):
    for table in tables(comparison):
        assert {len(row) for row in table.rows} <= {len(table.columns)}
        assert table.rows or table.notes
        assert table.columns[0].kind == "text"


def test_times_end_to_end_include_the_search():
    found = make()
    assert cells(costs(found))[0][3] == cells(costs(found))[0][1] == "2.1"
    reranking, together = (float(cells(costs(found))[1][index]) for index in (1, 3))
    assert together == pytest.approx(reranking + 2.1)
    assert cells(overview(found))[1][5] == f"{together:.1f}"
    # Candidates that are part of the suite have no search time.
    given = replace(found, results=(replace(found.results[0], cost=Cost()), *found.results[1:]))
    assert cells(costs(given))[1][3] == cells(costs(given))[1][1]


@pytest.mark.parametrize(("known", "share"), [(13, "52%"), (24, "96%"), (25, "100%"), (0, None)])
def test_times_of_known_passages_say_so(known, share):
    """In each cell, as a system that ranks the passages of an earlier one seems faster."""
    found = with_reranker(
        make(), cost=Cost({"q0": 0.04}, known=known, encoded=25 - known, first_seen={"q0"})
    )
    times = [cells(overview(found))[1][5], *cells(costs(found))[1][1:4]]
    remark = f" ({share} known)" if share else ""
    assert times == [f"{time}{remark}" for time in ("42.1", "40.0", "40.0", "42.1")]
    assert [row[-1] for row in cells(overview(found))[:1]] == ["2.1"]  # a search knows none
    for table in (overview(found), costs(found)):
        assert any(note.startswith("Known passages") for note in table.notes) is bool(share)
    plot = charts.latency(found, "p-")
    assert (f"({share} of the passages known)" in plot) is bool(share)
    assert (KNOWN in report(found, details=False)) is bool(share)


def test_a_small_share_is_not_none():
    assert timed(0.04, 0.001) == "40.0 (< 1% known)"
    assert timed(None, 0.5) == NONE


@pytest.mark.parametrize(
    ("comparison", "tone"),
    [(make(), "gain"), (make(gain=-0.1), "loss"), (make(gain=-0.1, p=0.3), "")],
    ids=["gain", "loss", "perhaps a loss"],
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


def test_issues_or_that_all_is_ok():
    assert cells(issues(make())) == [
        ["lexical+rerank", "1 degraded (a part of the method failed), 5 ok", "1 timeout"]
    ]
    fine = issues(with_reranker(make(), statuses={"ok": 6}, issues={}))
    assert (fine.rows, fine.notes) == ((), ("Every ranking was ok.",))
    first = replace(make(), results=make().results[:1])
    assert not issues(first).notes
    cut = issues(with_reranker(make(), statuses={"ok": 6}, issues={}, truncated=0.125))
    assert "12.5% of the candidates" in cut.notes[-1]


def test_a_row_for_each_measured_system():
    found = make()
    table = overview(found)
    first, second = cells(table)
    means = [f"{result.evaluation.mean['nDCG@10']:.4f}" for result in found.ran]
    assert first == ["lexical", means[0], NONE, NONE, NONE, "2.1", NONE]
    assert second[:5] == [
        "lexical+rerank", means[1], "+0.1000", "+0.0500 to +0.1500", "0.010",
    ]  # fmt: skip
    assert second[6] == "2.10"
    assert [row[1].best for row in table.rows] == [False, True]


def test_prices_have_a_column_only_if_there_are_any():
    free = with_reranker(make(), cost=Cost({"q0": 0.1}))
    assert "cost of 1,000 queries" not in [column.title for column in overview(free).columns]


def test_nothing_measured():
    assert overview(EDGES["nothing ran"]).rows == ()
    alike = with_reranker(make(), evaluation=make().results[0].evaluation)
    assert not any(cell.best for row in overview(alike).rows for cell in row)
    unknown = with_reranker(make(low=None, high=None, p=None))
    assert cells(overview(unknown))[1][2:5] == ["+0.1000", NONE, NONE]


def figures(mean, low, high, measure="nDCG@10"):
    return Corrected(measure, 30, 8, 0.5, mean, low, high, 0.4, 0.3, 0.6, 0.8, 0.95)


def table(*items, **options):
    results = tuple(
        CorrectedResult("lexical+x", figures(0.45, 0.4, 0.5, measure), "lexical", difference)
        for measure, difference in items
    )
    return corrected(make(corrected=results), **options)


def test_nothing_corrected():
    assert (corrected(make()).rows, corrected(make()).notes) == ((), ())


def test_figures_of_a_system():
    found = table(("nDCG@10", None), ("RR", None))
    assert cells(found)[0] == [
        "lexical+x", "nDCG@10", "0.5000", "0.4500", "0.4000 to 0.5000", "0.3000 to 0.6000",
        NONE, NONE,
    ]  # fmt: skip
    assert [row[1].text for row in found.rows] == ["nDCG@10", "RR"]
    assert "A model judged all 30 queries, and a person judged 8 of them" in found.notes[0]
    assert "Intervals have a confidence of 95%" in found.notes[0]


@pytest.mark.parametrize(
    ("mean", "low", "high", "tone"),
    [(0.1, 0.05, 0.15, "gain"), (-0.1, -0.15, -0.05, "loss"), (0.1, -0.05, 0.25, "")],
    ids=["gain", "loss", "chance"],
)
def test_only_what_is_not_chance_has_a_colour(mean, low, high, tone):
    cells = table(("nDCG@10", figures(mean, low, high))).rows[0][-2:]
    assert [cell.text for cell in cells] == [f"{mean:+.4f}", f"{low:+.4f} to {high:+.4f}"]
    assert [cell.tone for cell in cells] == [tone, tone]


def test_each_query_has_a_row_and_only_changes_a_colour():
    found = make(rerankers=("a", "b"))
    values = [result.evaluation.per_query["nDCG@10"] for result in found.ran]
    rows = all_queries(found).rows
    assert cells(all_queries(found)) == [
        [text, query, *(f"{each[query]:.3f}" for each in values)]
        for query, text in found.queries.items()
    ]
    assert {row[2].tone for row in rows} == {""}
    assert [row[3].tone for row in rows] == [
        "gain" if index % 3 else "loss" for index in range(len(found.queries))
    ]


def test_queries_without_a_value_a_change_or_a_text():
    found = make(count=2)
    base = found.ran[0].evaluation.per_query["nDCG@10"]
    noise = {query: value + 1e-12 for query, value in base.items()}
    rows = all_queries(with_reranker(found, evaluation=evaluation(noise))).rows
    assert {row[3].tone for row in rows} == {""}  # rounding is no change
    cell = all_queries(with_reranker(found, evaluation=evaluation({"q0": 0.5}))).rows[1][3]
    assert (cell.text, cell.tone) == ("", "")
    assert all_queries(replace(found, queries={"q0": ""})).rows[0][0].text == "q0"
    assert not all_queries(EDGES["nothing ran"]).rows

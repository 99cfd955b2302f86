from dataclasses import replace

import pytest

from reports import EDGES, make, with_reranker
from secondpass.evaluation.report.tables import TABLES, differences, issues, quality, tables
from secondpass.evaluation.report.text import NONE


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


def test_consecutive_rows_of_a_system_form_a_group():
    groups = list(differences(make(rerankers=("a", "b"))).groups)
    assert [(name, len(rows)) for name, rows in groups] == [("lexical+a", 2), ("lexical+b", 2)]


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

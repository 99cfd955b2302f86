"""The table below the verdict."""

import pytest

from reports import EDGES, evaluation, make, with_reranker
from secondpass_evaluation import Cost, Result
from secondpass_evaluation.report.tables import cost_of_1000, overview
from secondpass_evaluation.report.text import NONE


def test_a_row_for_each_measured_system():
    found = make()
    table = overview(found)
    assert [column.title for column in table.columns] == [
        "system", "nDCG@10", "against lexical", "interval", "corrected p", "ms per query",
        "cost of 1,000 queries",
    ]  # fmt: skip
    first, second = ([cell.text for cell in row] for row in table.rows)
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
    assert [cell.text for cell in overview(unknown).rows[1]][2:5] == ["+0.1000", NONE, NONE]


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (Cost({"q": 1.0, "r": 1.0}, cost=0.5), 250.0),
        (Cost({"q": 1.0}, cost=0.0), 0.0),
        (Cost({"q": 1.0}), None),
        (Cost(cost=0.5), None),
    ],
    ids=["priced", "free", "no price", "no query"],
)
def test_cost_of_1000_queries(cost, expected):
    result = Result("x", "ran", evaluation=evaluation({"q": 0.5}), cost=cost)
    assert cost_of_1000(result) == expected

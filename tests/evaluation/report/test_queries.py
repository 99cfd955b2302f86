"""The table of all queries."""

from dataclasses import replace

from reports import EDGES, evaluation, make, with_reranker
from secondpass_evaluation.report.page import all_queries


def test_all_queries_have_a_row_and_only_changes_a_colour():
    found = make(rerankers=("a", "b"))
    table = all_queries(found)
    assert [row[1].text for row in table.rows] == list(found.queries)
    assert {row[2].tone for row in table.rows} == {""}
    assert [row[3].tone for row in table.rows] == [
        "gain" if index % 3 else "loss" for index in range(len(found.queries))
    ]
    assert not all_queries(EDGES["nothing ran"]).rows


def test_values_are_those_of_the_first_measure():
    found = make(count=2)
    first, second = (result.evaluation.per_query["nDCG@10"] for result in found.ran)
    rows = [[cell.text for cell in row] for row in all_queries(found).rows]
    assert rows == [
        [text, query, f"{first[query]:.3f}", f"{second[query]:.3f}"]
        for query, text in found.queries.items()
    ]


def test_a_query_without_a_value_has_an_empty_cell():
    found = make(count=2)
    part = with_reranker(found, evaluation=evaluation({"q0": 0.5}))
    cells = all_queries(part).rows[1]
    assert (cells[3].text, cells[3].tone) == ("", "")
    assert all_queries(replace(found, queries={"q0": ""})).rows[0][0].text == "q0"


def test_rounding_is_no_change():
    found = make(count=2)
    base = found.ran[0].evaluation.per_query["nDCG@10"]
    noise = evaluation({query: value + 1e-12 for query, value in base.items()})
    rows = all_queries(with_reranker(found, evaluation=noise)).rows
    assert {row[3].tone for row in rows} == {""}

from reports import INJECTIONS, Parsed, make, with_reranker
from secondpass_evaluation.report import charts as query_charts


def drawn(comparison, plot):
    return plot(comparison, comparison.results[1], "p-")


def test_bars_name_their_queries():
    svg = drawn(make(count=5, text="wing & tail"), query_charts.per_query)
    assert "<title>wing &amp; tail 1 (q1): +0.100</title>" in svg
    assert "<title>wing &amp; tail 0 (q0): -0.050</title>" in svg


def test_text_stays_text():
    plain, hostile = (
        drawn(make(text=text), query_charts.per_query) for text in ("x", INJECTIONS["script"])
    )
    assert Parsed(hostile).tags == Parsed(plain).tags


def test_shares_within_top_ranks():
    svg = drawn(make(), query_charts.within)
    assert "top 1: 20.0% before, 40.0% after" in svg
    assert "top 100: 80.0% before, 80.0% after" in svg
    assert "% of 5 relevant documents" in svg


def test_moves_count_ups_and_downs():
    assert "in steps: 3 up, 1 down" in drawn(make(), query_charts.moves)


def test_nothing_to_draw():
    assert drawn(make(gain=0.0), query_charts.per_query) is None
    empty = with_reranker(make(), moves=())
    assert drawn(empty, query_charts.within) is None
    assert drawn(with_reranker(make(), moves=((1, 1),)), query_charts.moves) is None

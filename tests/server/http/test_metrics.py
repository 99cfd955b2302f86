"""What Prometheus reads, and that nothing of it comes from a request."""

from fakes import ByTable, InOrder
from secondpass import Reranker
from secondpass_server.http import metrics

BODY = {"query": "q", "documents": ["a", "ccc", "bb"]}
MARKER = "wombats of 1899"


def test_metrics_count_without_content(serving):
    server = serving(Reranker(InOrder([0.5, float("nan"), 0.7])))
    body = {"query": MARKER, "documents": [MARKER] * 3, "model": MARKER}
    assert server.post("/v1/rerank", body).status_code == 200
    assert server.post("/jina/rerank", {"query": MARKER}).status_code == 422
    assert server.get("/wombats").status_code == 404
    text = server.get("/metrics").text
    for line in (
        'secondpass_requests_total{api="common",status="200"} 1.0',
        'secondpass_requests_total{api="jina",status="422"} 1.0',
        'secondpass_requests_total{api="none",status="404"} 1.0',
        'secondpass_rankings_total{model="m",status="partial"} 1.0',
        'secondpass_issues_total{code="score_not_finite"} 1.0',
        "secondpass_candidates_sum 3.0",
        "secondpass_requests_under_way 0.0",
    ):
        assert line in text
    assert "wombats" not in text


def test_two_servers_have_their_own_metrics(serving):
    one, two = serving(Reranker(ByTable())), serving(Reranker(ByTable()))
    one.post("/v1/rerank", BODY)
    assert "rankings_total{" in one.get("/metrics").text
    assert "rankings_total{" not in two.get("/metrics").text


def test_codes_that_are_no_identifiers_share_a_label():
    """Those of a method of yours may hold anything."""
    codes = ["no_key", "no_key", "of a passage", "a" * 51]
    assert metrics._codes(codes) == {"no_key", "other"}

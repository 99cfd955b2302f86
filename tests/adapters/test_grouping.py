"""Requests with options of their own, in few calls."""

from fakes import Batching
from secondpass import Reranker
from secondpass.adapters.grouping import rerank_grouped

REQUESTS = [("q", ["a", "bb", "ccc"][: count + 1]) for count in range(3)]


def test_equal_options_are_one_call_and_rankings_keep_their_order(monkeypatch):
    calls = []
    reranker = Reranker(Batching())
    rerank_many = reranker.rerank_many
    monkeypatch.setattr(
        reranker,
        "rerank_many",
        lambda requests, **options: calls.append(options) or rerank_many(requests, **options),
    )
    options = [{"top_k": 1, "depth": 2}, {"top_k": 2}, {"depth": 2, "top_k": 1}]
    rankings = rerank_grouped(reranker, REQUESTS, options)
    assert [ranking.order for ranking in rankings] == [(0,), (1, 0), (1,)]
    assert calls == [{"top_k": 1, "depth": 2}, {"top_k": 2}]

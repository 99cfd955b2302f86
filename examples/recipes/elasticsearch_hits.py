"""Rerank hits of Elasticsearch or OpenSearch.

    pip install -e ".[embedded]"
    python examples/recipes/elasticsearch_hits.py

``candidates`` converts a search response of either client. The script needs no server: the response
below was written by hand from the documentation of the search API. The tests send it from a
loopback server through both real clients; it was not tested with a real server. In your
application::

    client = Elasticsearch("http://localhost:9200")
    response = client.search(index="handbook", query={"match": {"text": question}}, size=50)
    ranking = reranker.rerank(question, candidates(response))

Their scores have no upper bound, so a blend needs ``minmax``, ``zscore`` or ``rrf``. Hits of a
search that sorts by a field have no score: None, which is accepted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # missing_package.py

import missing_package  # noqa: F401 - says what to install

from secondpass import Candidate, Ranking, Reranker

QUESTION = "The screen says E71, what now?"


def _hit(identifier: str, score: float, title: str, text: str) -> dict[str, Any]:
    source = {"title": title, "text": text}
    return {"_index": "handbook", "_id": identifier, "_score": score, "_source": source}


RESPONSE: dict[str, Any] = {
    "took": 3,
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {
        "total": {"value": 3, "relation": "eq"},
        "max_score": 2.41,
        "hits": [
            _hit("e17", 2.41, "Display shows E17", "The cable is not fully in the lock."),
            _hit("winter", 1.2, "Riding in winter", "What the screen says in frost may be late."),
            _hit("e71", 1.13, "Display shows E71", "The motor is too hot. Ride without its help."),
        ],
    },
}
"""A response of ``GET /handbook/_search``, in the documented shape."""


def candidates(response: Mapping[str, Any]) -> list[Candidate]:
    """The hits of a response as candidates."""
    hits = [(hit, hit["_source"]) for hit in response["hits"]["hits"]]
    return [
        Candidate(source["text"], id=hit["_id"], score=hit["_score"], metadata=source)
        for hit, source in hits
    ]


def rank(question: str, response: Mapping[str, Any]) -> Ranking:
    """Rerank the hits by their titles and texts."""
    reranker = Reranker.from_preset("embedded", render={"fields": ["title", "text"]}, top_k=5)
    return reranker.rerank(question, candidates(response))


def number(score: float | None, digits: int) -> str:
    """A score for the table; a candidate may have none."""
    return "none" if score is None else f"{score:.{digits}f}"


if __name__ == "__main__":
    print("rank  hit score  rerank score  id      text")
    for item in rank(QUESTION, RESPONSE):
        hit, reranked = number(item.score, 2), number(item.rerank_score, 3)
        print(f"{item.rank:4}  {hit:>9}  {reranked:>12}  {item.id:6}  {item.text}")

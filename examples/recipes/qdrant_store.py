"""Rerank the results of a vector search in Qdrant.

    pip install -e ".[embedded,evaluation]" qdrant-client
    python examples/recipes/qdrant_store.py
    python examples/recipes/qdrant_store.py "I ran over a nail"

``candidates`` converts Qdrant's points: candidates can be mappings, such as payloads. The client
runs in its local mode here, in memory; for a server, replace ``":memory:"`` by
``url="http://localhost:6333"``. Ids in Qdrant are integers or UUIDs, so put your own ids into the
payload.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import handbook
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, ScoredPoint, VectorParams

from secondpass import Ranking, Reranker

COLLECTION = "handbook"


def fill(client: QdrantClient) -> None:
    """Write the handbook into a collection."""
    passages = handbook.passages()
    vectors = handbook.embed([handbook.full_text(passage) for passage in passages])
    parameters = VectorParams(size=handbook.DIMENSIONS, distance=Distance.COSINE)
    client.create_collection(COLLECTION, vectors_config=parameters)
    points = [
        PointStruct(
            id=number,
            vector=vector,
            payload={"id": passage.id, "text": passage.text, "title": passage.metadata["title"]},
        )
        for number, (passage, vector) in enumerate(zip(passages, vectors, strict=True))
    ]
    client.upsert(COLLECTION, points)


def candidates(points: Sequence[ScoredPoint]) -> list[dict[str, Any]]:
    """Qdrant's points as candidates: ``id`` and ``text`` of the payload are used, the rest is
    metadata.
    """
    return [{**(point.payload or {}), "score": point.score} for point in points]


def search(client: QdrantClient, question: str, limit: int = 10) -> list[ScoredPoint]:
    """The nearest points."""
    [vector] = handbook.embed([question])
    return client.query_points(COLLECTION, query=vector, limit=limit).points


def rank(question: str) -> Ranking:
    """Search and rerank."""
    client = QdrantClient(":memory:")
    try:
        fill(client)
        found = candidates(search(client, question))
    finally:
        client.close()
    return Reranker.from_preset("embedded", top_k=5).rerank(question, found)


if __name__ == "__main__":
    handbook.show(rank(" ".join(sys.argv[1:]) or "The screen says E71, what now?"))

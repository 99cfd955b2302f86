"""Rerank the results of a vector search in LanceDB, an embedded database.

    pip install -e ".[embedded,evaluation]" lancedb
    python examples/recipes/lancedb_store.py
    python examples/recipes/lancedb_store.py "I ran over a nail"

LanceDB returns rows as dicts with a ``_distance``. ``candidates`` converts it to a similarity,
which can be blended with rerank scores. The table is in a temporary folder here; pass your folder
to ``lancedb.connect``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import handbook
import lancedb

from secondpass import Ranking, Reranker


def fill(folder: str) -> Any:
    """Write the handbook into a table, and return it."""
    passages = handbook.passages()
    vectors = handbook.embed([handbook.full_text(passage) for passage in passages])
    rows = [
        {
            "id": passage.id,
            "text": passage.text,
            "title": passage.metadata["title"],
            "vector": vector,
        }
        for passage, vector in zip(passages, vectors, strict=True)
    ]
    return lancedb.connect(folder).create_table("handbook", data=rows)


def candidates(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """LanceDB's rows as candidates."""
    return [
        {"id": row["id"], "text": row["text"], "title": row["title"], "score": 1 - row["_distance"]}
        for row in rows
    ]


def search(table: Any, question: str, limit: int = 10) -> list[dict[str, Any]]:
    """The nearest rows, by cosine."""
    [vector] = handbook.embed([question])
    rows: list[dict[str, Any]] = table.search(vector).distance_type("cosine").limit(limit).to_list()
    return rows


def rank(question: str) -> Ranking:
    """Search and rerank."""
    with tempfile.TemporaryDirectory() as folder:
        found = candidates(search(fill(folder), question))
    return Reranker.from_preset("embedded", top_k=5).rerank(question, found)


if __name__ == "__main__":
    handbook.show(rank(" ".join(sys.argv[1:]) or "The screen says E71, what now?"))

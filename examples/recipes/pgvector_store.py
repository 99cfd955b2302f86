"""Rerank the results of a vector search in PostgreSQL with pgvector.

    pip install -e ".[embedded,evaluation]" pgserver "psycopg[binary]"
    python examples/recipes/pgvector_store.py
    python examples/recipes/pgvector_store.py "I ran over a nail"

Rows as dicts are valid candidates: the columns ``id``, ``text`` and ``score`` are used, the others
become metadata.

Without DATABASE_URL, the package pgserver starts its own PostgreSQL, with pgvector, in a
temporary folder. The table is temporary in both cases.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import handbook
import psycopg
from psycopg.rows import dict_row

from secondpass import Ranking, Reranker

TABLE = f"""
create temporary table passages (
    id text primary key, title text, text text, embedding vector({handbook.DIMENSIONS})
)"""
SEARCH = """
select id, title, text, 1 - (embedding <=> %(vector)s::vector) as score
from passages order by embedding <=> %(vector)s::vector limit %(limit)s"""


@contextmanager
def database() -> Iterator[str]:
    """The address of your database, or of a temporary one."""
    if address := os.environ.get("DATABASE_URL"):
        yield address
        return
    import pgserver

    with tempfile.TemporaryDirectory() as folder, pgserver.get_server(folder) as server:
        yield server.get_uri()


def fill(connection: psycopg.Connection[Any]) -> None:
    """Write the handbook into a temporary table."""
    passages = handbook.passages()
    vectors = handbook.embed([handbook.full_text(passage) for passage in passages])
    connection.execute("create extension if not exists vector")
    connection.execute(TABLE)
    for passage, vector in zip(passages, vectors, strict=True):
        connection.execute(
            "insert into passages values (%s, %s, %s, %s::vector)",
            (passage.id, passage.metadata["title"], passage.text, str(vector)),
        )


def search(
    connection: psycopg.Connection[Any], question: str, limit: int = 10
) -> list[dict[str, Any]]:
    """The nearest rows, by cosine."""
    [vector] = handbook.embed([question])
    cursor = connection.cursor(row_factory=dict_row)
    return cursor.execute(SEARCH, {"vector": str(vector), "limit": limit}).fetchall()


def rank(question: str) -> Ranking:
    """Search and rerank."""
    with database() as address, psycopg.connect(address) as connection:
        fill(connection)
        found = search(connection, question)
    return Reranker.from_preset("embedded", top_k=5).rerank(question, found)


if __name__ == "__main__":
    handbook.show(rank(" ".join(sys.argv[1:]) or "The screen says E71, what now?"))

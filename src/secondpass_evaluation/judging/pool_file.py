"""The file with the texts of judged documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from secondpass.formats.lines import AnyPath, read_json_lines
from secondpass.ranking.rendering import well_formed
from secondpass.types import Candidate
from secondpass_evaluation.judging.pools import Pools


def pool_lines(queries: Mapping[str, str], pools: Pools) -> Iterator[str]:
    """A line for each query: ``query_id``, ``query`` and ``documents`` with ``id`` and ``text``."""
    for query, items in pools.items():
        documents = [{"id": item.id, "text": item.text} for item in items]
        record = {"query_id": query, "query": queries[query], "documents": documents}
        yield well_formed(json.dumps(record, ensure_ascii=False)) + "\n"


def read_pool(path: AnyPath) -> tuple[dict[str, str], Pools]:
    """The queries and their documents.

    Raises:
        FormatError: a line is malformed.
        OSError: the file cannot be read.
    """
    queries: dict[str, str] = {}
    pools: Pools = {}
    for line, record in read_json_lines(Path(path)):
        try:
            query, documents = record["query_id"], record["documents"]
            queries[query] = record["query"]
            pools[query] = tuple(Candidate(item["text"], item["id"]) for item in documents)
        except (LookupError, TypeError):
            problem = "needs 'query_id', 'query' and 'documents' with 'id' and 'text'"
            raise line.error(problem) from None
    return queries, pools

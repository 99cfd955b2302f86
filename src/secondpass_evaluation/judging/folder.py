"""The files in a folder of judgements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from secondpass.errors import InputError
from secondpass.formats.lines import AnyPath, check_field, read_json_lines
from secondpass.rendering import well_formed
from secondpass.types import Candidate
from secondpass_evaluation.judging.labels import judged_by_path
from secondpass_evaluation.judging.pools import Pools

QRELS, QUERIES, POOL = "qrels.txt", "queries.jsonl", "pool.jsonl"

_OTHERS = ("qrels/test.tsv", "qrels/test.tsv.gz", "qrels.tsv", "qrels.tsv.gz", "qrels.txt.gz")
"""Judgements that would be read instead of ``qrels.txt``, or share its mark."""


def check_folder(folder: AnyPath) -> None:
    """Check that judgements can be written into a folder, which need not exist.

    Raises:
        InputError: it has judgements, queries or documents without the mark of a model.
    """
    path = Path(folder)
    names = [*_OTHERS, "qrels", "qrels.gz"]
    if not judged_by_path(path / QRELS).is_file():
        names += QRELS, QUERIES, POOL
    if unmarked := [name for name in names if (path / name).is_file()]:
        raise InputError(
            f"{folder}: has {', '.join(unmarked)}, which is not marked as a model's and is not "
            "overwritten; name another folder"
        )


def check_ids(pools: Pools) -> None:
    """Check that judgements of these documents can be written.

    Raises:
        FormatError: an id does not fit into TREC's files.
    """
    for query, items in pools.items():
        check_field(QRELS, "query id", query)
        for item in items:
            check_field(QRELS, "document id", item.id)


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

"""The files in a folder of judgements."""

from __future__ import annotations

from pathlib import Path

from secondpass.errors import InputError
from secondpass.formats.lines import AnyPath, check_field
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

"""Reads documents, queries and the lines of runs, strictly; trec_eval's order of scores.

The formats are BEIR's JSON lines and TSV (Thakur et al., "BEIR", NeurIPS Datasets 2021), and the
white-space separated runs of trec_eval, which keeps scores in single precision, orders by score,
ties by descending document id, and ignores ranks and the order of lines.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.files import uncompressed_name
from secondpass.formats.lines import INTEGER, AnyPath, Line, instead_of, parse_object, read_lines
from secondpass.settings import describe
from secondpass.types import Candidate

_CORPUS_KEYS = frozenset({"_id", "id", "title", "text", "metadata"})
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def trec_order(scores: Mapping[str, float]) -> dict[str, float]:
    """The documents of one query in the order of trec_eval: by score, ties by descending id."""
    return dict(
        sorted(
            scores.items(),
            key=lambda item: (single_precision(item[1], item[0]), item[0]),
            reverse=True,
        )
    )


def single_precision(score: float, document: str) -> float:
    """``score`` rounded as in trec_eval; raises an InputError if that is no finite number."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", score))[0]
    except (struct.error, TypeError):
        raise InputError(f"document {document!r}: its score is not a number") from None
    except OverflowError:
        raise InputError(f"document {document!r}: its score is beyond single precision") from None
    if rounded - rounded != 0:
        raise InputError(f"document {document!r}: its score is not finite")
    return rounded


def parse_document(line: Line, record: Mapping[str, Any]) -> Candidate:
    """Make the candidate of one line of a corpus."""
    identifier = _id(line, record)
    text, title, nested = record.get("text"), record.get("title"), record.get("metadata")
    if not isinstance(text, str):
        raise line.error(f"'text' must be a string{instead_of(record, 'text')}")
    if title is not None and not isinstance(title, str):
        raise line.error(f"'title' must be a string, not {describe(title)}")
    if nested is not None and not isinstance(nested, dict):
        raise line.error(f"'metadata' must be an object, not {describe(nested)}")
    metadata = {key: value for key, value in record.items() if key not in _CORPUS_KEYS}
    if title:
        metadata["title"] = title
    if both := sorted(metadata.keys() & (nested or {}).keys()):
        raise line.error(f"{', '.join(both)} is both beside and inside 'metadata'")
    return Candidate(text, identifier, metadata={**metadata, **(nested or {})})


def read_queries(path: AnyPath) -> dict[str, str]:
    r"""Read queries: id -> text, in the order of the file.

    Reads JSON lines with ``_id`` (or ``id``) and ``text``, or lines of ``id<TAB>text``. The suffix
    decides (``.jsonl``, ``.tsv``, also before ``.gz``); with any other, a first line that begins
    with ``{`` means JSON.

    Raises:
        FormatError: a line is malformed, or an id is repeated.
        OSError: the file cannot be read.
    """
    queries: dict[str, str] = {}
    seen: dict[str, int] = {}
    is_json = _is_json(path)
    for line in read_lines(path):
        if is_json:
            record = parse_object(line)
        else:
            identifier, tab, rest = line.text.partition("\t")
            if not tab:
                raise line.error("must be an id, a tab and the query text; there is no tab")
            record = {"id": identifier, "text": rest}
        text = record.get("text")
        if not isinstance(text, str):
            raise line.error(f"'text' must be a string{instead_of(record, 'text')}")
        query_id = str(_id(line, record))
        line.check_new(query_id, seen)
        queries[query_id] = text
    return queries


def parse_run_line(line: Line) -> tuple[str, str, float]:
    """The query id, document id and score of one line of a run."""
    fields = line.text.split()
    if len(fields) != 6:
        raise line.error(
            f"must have six fields (query Q0 document rank score tag), has {len(fields)}"
        )
    query, _, document, rank, score, _ = fields
    if not INTEGER.fullmatch(rank):
        raise line.error(f"the rank must be an integer, not {describe(rank)}")
    if not _NUMBER.fullmatch(score):
        raise line.error(f"the score must be a finite number, not {describe(score)}")
    try:
        single_precision(float(score), document)
    except InputError as error:
        raise line.error(str(error)) from None
    return query, document, float(score)


def _is_json(path: AnyPath) -> bool:
    suffix = uncompressed_name(path).suffix.lower()
    if suffix in {".jsonl", ".tsv"}:
        return suffix == ".jsonl"
    with open(path, "rb") as file:
        if not file.seekable():
            raise FormatError(
                path, None, "must be a file, not a pipe: its format is detected before it is read"
            )
    return next((line.text.lstrip().startswith("{") for line in read_lines(path)), False)


def _id(line: Line, record: Mapping[str, Any]) -> str | int:
    if "_id" in record and "id" in record and record["_id"] != record["id"]:
        raise line.error("has both '_id' and 'id', and they differ")
    value = record.get("_id", record.get("id"))
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        key = "_id" if "_id" in record else "id"
        what = f"needs an '_id' or 'id': a string or an integer{instead_of(record, key)}"
        raise line.error(what)
    return value

"""Read corpora, queries, judgments and runs.

Formats: BEIR's JSON lines and TSV (Thakur et al., "BEIR", NeurIPS Datasets 2021), and the
white-space separated files of trec_eval. Files are UTF-8; a byte order mark and blank lines are
ignored. A malformed line raises :class:`FormatError` with file and line; nothing is guessed or
skipped. Files whose names end in ``.gz`` are decompressed.
:mod:`secondpass_evaluation.writing` writes the same formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from secondpass.errors import InputError
from secondpass.formats.compression import uncompressed_name
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import (
    INTEGER,
    AnyPath,
    Line,
    read_json_lines,
    read_lines,
)
from secondpass.formats.runs import Qrels, Run, single_precision, trec_order, whole_relevance
from secondpass.settings import describe
from secondpass.types import Candidate

_CORPUS_KEYS = frozenset({"_id", "id", "title", "text", "metadata"})
_QUERY_COLUMNS = frozenset({"query-id", "query_id", "queryid", "qid"})
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def read_corpus(path: AnyPath) -> Iterator[Candidate]:
    """Read candidates from JSON lines with ``_id`` (or ``id``), ``text``, ``title``, ``metadata``.

    A title that is not empty becomes ``metadata["title"]``; other keys are added to the metadata,
    as for a mapping that is passed to a reranker. The file is read lazily.

    Raises:
        FormatError: a line is malformed, or an id is repeated.
        OSError: the file cannot be read.
    """
    seen: dict[str, int] = {}
    for line, record in read_json_lines(path):
        candidate = parse_document(line, record)
        _check_new(line, candidate.id, seen)
        yield candidate


def parse_document(line: Line, record: Mapping[str, Any]) -> Candidate:
    """Make the candidate of one line of a corpus.

    Raises:
        FormatError: the record is malformed.
    """
    identifier = _id(line, record)
    text, title, nested = record.get("text"), record.get("title"), record.get("metadata")
    if not isinstance(text, str):
        raise line.error(f"'text' must be a string, not {describe(text)}")
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
    if _is_json(path):
        for line, record in read_json_lines(path):
            text = record.get("text")
            if not isinstance(text, str):
                raise line.error(f"'text' must be a string, not {describe(text)}")
            queries[_new_id(line, record, seen)] = text
        return queries
    for line in read_lines(path):
        identifier, tab, text = line.text.partition("\t")
        if not tab:
            raise line.error("must be an id, a tab and the query text; there is no tab")
        queries[_new_id(line, {"id": identifier}, seen)] = text
    return queries


def read_qrels(path: AnyPath) -> Qrels:
    """Read judgments: lines of ``query 0 document relevance``, or BEIR's TSV.

    The TSV has a header, whose first column is ``query-id``, and three columns: query, document,
    relevance; its ids may contain spaces. Relevance is an integer and may be negative. A judgment
    may be repeated, but not with another relevance.

    Raises:
        FormatError: a line is malformed, or judgments contradict each other.
        OSError: the file cannot be read.
    """
    qrels: Qrels = {}
    tabbed: bool | None = None
    for line in read_lines(path):
        if tabbed is None:
            header = line.text.split("\t")
            tabbed = len(header) == 3 and header[0].strip().lower() in _QUERY_COLUMNS
            if tabbed:
                continue
        query, document, relevance = _judgment(line, tabbed)
        judged = qrels.setdefault(query, {})
        if judged.setdefault(document, relevance) != relevance:
            raise line.error(
                f"document {document!r} of query {query!r} was judged "
                f"{judged[document]} before, now {relevance}"
            )
    return qrels


def read_run(path: AnyPath) -> Run:
    """Read a run: lines of ``query Q0 document rank score tag``.

    Documents are ordered as in trec_eval: by score in single precision, ties by descending document
    id; ranks are ignored. Measures therefore agree with those of trec_eval for the file.

    Raises:
        FormatError: a line is malformed, or a query has a document twice.
        OSError: the file cannot be read.
    """
    run: Run = {}
    for line in read_lines(path):
        query, document, score = parse_run_line(line)
        scores = run.setdefault(query, {})
        if document in scores:
            raise line.error(f"query {query!r} has document {document!r} twice")
        scores[document] = score
    return {query: trec_order(scores) for query, scores in run.items()}


def parse_run_line(line: Line) -> tuple[str, str, float]:
    """The query id, document id and score of one line of a run.

    Raises:
        FormatError: the line is malformed.
    """
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


def _new_id(line: Line, record: Mapping[str, Any], seen: dict[str, int]) -> str:
    identifier = str(_id(line, record))
    _check_new(line, identifier, seen)
    return identifier


def _id(line: Line, record: Mapping[str, Any]) -> str | int:
    if "_id" in record and "id" in record and record["_id"] != record["id"]:
        raise line.error("has both '_id' and 'id', and they differ")
    value = record.get("_id", record.get("id"))
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise line.error(f"needs an '_id' or 'id': a string or an integer, not {describe(value)}")
    return value


def _check_new(line: Line, identifier: object, seen: dict[str, int]) -> None:
    first = seen.setdefault(str(identifier), line.number)
    if first != line.number:
        raise line.error(f"id {identifier!r} was given before, in line {first}")


def _judgment(line: Line, tabbed: bool) -> tuple[str, str, int]:
    fields = line.text.split("\t") if tabbed else line.text.split()
    if not tabbed and len(fields) == 3:
        raise line.error(
            "must have four fields (query 0 document relevance), has 3; tab-separated judgments "
            "of three columns need a first line 'query-id<TAB>corpus-id<TAB>score'"
        )
    if len(fields) != (3 if tabbed else 4):
        count = "three tab-separated" if tabbed else "four"
        names = "query document relevance" if tabbed else "query 0 document relevance"
        raise line.error(f"must have {count} fields ({names}), has {len(fields)}")
    query, document, relevance = fields[0], fields[-2], fields[-1].strip()
    if not query or not document:
        raise line.error("an id is empty")
    if not INTEGER.fullmatch(relevance):
        raise line.error(f"the relevance must be an integer, not {describe(relevance)}")
    try:
        return query, document, whole_relevance(int(relevance))
    except ValueError as error:
        raise line.error(
            f"the relevance of document {document!r} for query {query!r} {error}"
        ) from None

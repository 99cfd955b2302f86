"""Reads corpora, judgements and runs.

Formats: BEIR's JSON lines and TSV (Thakur et al., "BEIR", NeurIPS Datasets 2021), and the
white-space separated files of trec_eval. Files are UTF-8; a byte order mark and blank lines are
ignored. A malformed line raises :class:`FormatError` with file and line; nothing is guessed or
skipped. Files whose names end in ``.gz`` are decompressed.
:mod:`secondpass_evaluation.writing` writes the same formats.

trec_eval keeps scores in *single precision* and orders by score, ties by descending document id; it
ignores the ranks and the order of lines. A ranking therefore keeps its order only if its scores
decrease strictly in single precision. In secondpass a run is ordered by its scores in single
precision, and **ties keep the order of the mapping**. :func:`strictly_falling` writes that order
into the scores, so that trec_eval and every measure agree with it for any ids.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from secondpass import Candidate
from secondpass.formats.lines import INTEGER, AnyPath, Line, read_json_lines, read_lines
from secondpass.formats.reading import parse_document, parse_run_line, single_precision, trec_order
from secondpass.settings import describe

Run: TypeAlias = dict[str, dict[str, float]]
"""query id -> document id -> score; higher is better."""

Qrels: TypeAlias = dict[str, dict[str, int]]
"""query id -> document id -> relevance; 1 or more means relevant."""

RELEVANCE = (-(2**31), 10_000_000)
"""The smallest and the largest relevance.

trec_eval stores them as a C int, and allocates a counter for every grade up to the largest of a
query: 80 MB for this one. Without that memory it returns nothing, or ends the process.
"""

_SMALLEST_POSITIVE = 2.0**-149  # in single precision
_QUERY_COLUMNS = frozenset({"query-id", "query_id", "queryid", "qid"})


def whole_relevance(value: object) -> int:
    """A relevance as an int; raises a ValueError that continues "the relevance" if it is none."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise ValueError(f"must be a whole number, not {describe(value)}")
    smallest, largest = RELEVANCE
    if not smallest <= number <= largest:
        raise ValueError(f"must be {smallest} to {largest}, not {describe(number)}")
    return number


def file_of(document: str) -> str:
    """The path of a passage ``path#number`` of a file; empty if the id is another."""
    path, _, number = document.rpartition("#")
    return path if number.isdecimal() else ""


def judged_id(document: str, judged: Collection[str]) -> str:
    """The id under which a document is judged.

    Judgements may name files rather than their passages: for ``path#number``, which is not judged
    itself, that is ``path`` if it is judged. Otherwise it is the document's own id.
    """
    path = file_of(document)
    return path if path and document not in judged and path in judged else document


def by_judged_id(scores: Mapping[str, float], judged: Collection[str]) -> dict[str, float]:
    """The documents of one query, best first, with each judged file once, at its best passage."""
    kept: dict[str, float] = {}
    for document, score in strictly_falling(scores).items():
        kept.setdefault(judged_id(document, judged), score)
    return kept


def strictly_falling(scores: Mapping[str, float]) -> dict[str, float]:
    """The documents of one query, best first, with strictly decreasing scores.

    Args:
        scores: document id -> score; finite in single precision (up to 3.4e38).

    Returns:
        Every document. A score that is lower, in single precision, than the one before it is
        unchanged; another becomes the next lower number in single precision (about 6e-8 of it).
        The function is idempotent.

    Raises:
        InputError: a score is not a number within range.
    """
    decreasing: dict[str, float] = {}
    previous: float | None = None
    for document, score in sorted(
        scores.items(), key=lambda item: single_precision(item[1], item[0]), reverse=True
    ):
        rounded = single_precision(score, document)
        if previous is None or rounded < previous:
            decreasing[document] = float(score)
        else:
            rounded = single_precision(_next_below(previous), document)
            decreasing[document] = rounded
        previous = rounded
    return decreasing


def _next_below(score: float) -> float:
    """The next lower number in single precision; minus infinity below the lowest."""
    if score == 0:
        return -_SMALLEST_POSITIVE
    # Read as an integer, the bits of a float count the floats between it and zero.
    bits: int = struct.unpack("<i", struct.pack("<f", score))[0]
    below: float = struct.unpack("<f", struct.pack("<i", bits - 1 if score > 0 else bits + 1))[0]
    return below


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
        line.check_new(candidate.id, seen)
        yield candidate


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
        commas = line.text.count(",") >= 2 and "; the fields are separated by commas: use tabs"
        raise line.error(f"must have {count} fields ({names}), has {len(fields)}{commas or ''}")
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

"""Corpora, queries, judgments and runs to files, in the forms that ``formats`` reads.

A file is written under another name beside its place and then moved there, so no reader ever meets
half of it; when anything is raised, the file is as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import AnyPath, check_field, write_lines
from secondpass.formats.runs import strictly_falling, whole_relevance
from secondpass.settings import describe
from secondpass.types import Candidate


def write_corpus(path: AnyPath, corpus: Iterable[Candidate]) -> None:
    """Write candidates as JSON lines with ``_id``, ``text``, ``title`` and ``metadata``.

    ``metadata["title"]`` becomes the title; scores are not part of a corpus and not written.

    Raises:
        FormatError: a candidate has no id or no text, or metadata that JSON cannot hold.
        OSError: the file cannot be written.
    """

    def lines() -> Iterator[str]:
        seen: set[str] = set()
        for number, candidate in enumerate(corpus, 1):
            where = f"candidate {number}"
            if not isinstance(candidate.id, str) or not candidate.id:
                raise FormatError(path, None, f"{where}: has no id")
            if candidate.id in seen:
                raise FormatError(path, None, f"{where}: the id {candidate.id!r} is there twice")
            seen.add(candidate.id)
            if not isinstance(candidate.text, str):
                raise FormatError(path, None, f"{where}: has no text")
            record: dict[str, object] = {"_id": candidate.id, "text": candidate.text}
            metadata = dict(candidate.metadata)
            if isinstance(metadata.get("title"), str) and metadata["title"]:
                record["title"] = metadata.pop("title")
            if metadata:
                record["metadata"] = metadata
            yield _json_line(path, where, record)

    write_lines(path, lines())


def write_queries(path: AnyPath, queries: Mapping[str, str]) -> None:
    """Write queries as JSON lines, or as ``id<TAB>text`` where the suffix is ``.tsv``.

    Raises:
        FormatError: an id or text does not fit the form (no tab or line break fits in a TSV).
        OSError: the file cannot be written.
    """

    def lines() -> Iterator[str]:
        for query, text in queries.items():
            if not isinstance(text, str):
                problem = f"the text must be a string, not {describe(text)}"
                raise FormatError(path, None, f"query {query!r}: {problem}")
            if Path(path).suffix.lower() != ".tsv":
                yield _json_line(path, f"query {query!r}", {"_id": query, "text": text})
                continue
            check_field(path, "query id", query)
            if text != " ".join(text.split()):
                problem = "the text has white space that a line of a TSV cannot hold"
                raise FormatError(path, None, f"query {query!r}: {problem}")
            yield f"{query}\t{text}\n"

    write_lines(path, lines())


def write_qrels(path: AnyPath, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgments as ``query 0 document relevance``.

    Raises:
        FormatError: an id has white space or is empty, a relevance is not a whole number within
            :data:`~secondpass.formats.runs.RELEVANCE`, or a query
            has no judgments (the form cannot say so). The file is as it was.
        OSError: the file cannot be written.
    """

    def lines() -> Iterator[str]:
        for query, judged in qrels.items():
            check_field(path, "query id", query)
            if not judged:
                raise FormatError(path, None, f"query {query!r} has no judgments to write")
            for document, relevance in judged.items():
                check_field(path, "document id", document)
                try:
                    written = whole_relevance(relevance)
                except ValueError as error:
                    told = f"query {query!r}, document {document!r}: the relevance {error}"
                    raise FormatError(path, None, told) from None
                yield f"{query} 0 {document} {written}\n"

    write_lines(path, lines())


def write_run(
    path: AnyPath, run: Mapping[str, Mapping[str, float]], tag: str = "secondpass"
) -> None:
    """Write a run as ``query Q0 document rank score tag``, best first, ranks from 1.

    The order is by score, and documents with equal scores keep the order of the mapping. trec_eval
    would order those by document id, which says nothing about them, so a score that does not fall
    is written as the next lower number in single precision
    (:func:`secondpass.formats.runs.strictly_falling`). All other scores are written in full. A
    query without documents leaves no line; measures count it as one without results all the same.

    Raises:
        FormatError: an id or the tag has white space or is empty, or a score is not a finite
            number in single precision. The file is as it was.
        OSError: the file cannot be written.
    """

    def lines() -> Iterator[str]:
        check_field(path, "tag", tag)
        for query, scores in run.items():
            check_field(path, "query id", query)
            try:
                falling = strictly_falling(scores)
            except InputError as error:
                raise FormatError(path, None, f"query {query!r}, {error}") from None
            for rank, (document, score) in enumerate(falling.items(), 1):
                check_field(path, "document id", document)
                yield f"{query} Q0 {document} {rank} {score!r} {tag}\n"

    write_lines(path, lines())


def _json_line(path: AnyPath, where: str, record: Mapping[str, object]) -> str:
    try:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        line.encode()
    except (TypeError, ValueError) as error:
        why = f"JSON cannot hold it ({type(error).__name__})"
        raise FormatError(path, None, f"{where}: {why}") from None
    return line + "\n"

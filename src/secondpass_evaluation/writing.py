"""Write corpora, queries, judgements and runs as :mod:`secondpass_evaluation.reading` reads them.

Files are written atomically: no reader sees a partial file, and after an exception the old file is
unchanged. Files whose names end in ``.gz`` are compressed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from secondpass import Candidate, InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.files import uncompressed_name
from secondpass.formats.lines import AnyPath, check_field, write_lines
from secondpass.settings import describe
from secondpass.types import record_id
from secondpass_evaluation.errors import check_mapping
from secondpass_evaluation.reading import strictly_falling, whole_relevance


def write_corpus(path: AnyPath, corpus: Iterable[Candidate]) -> None:
    """Write candidates as JSON lines with ``_id``, ``text``, ``title`` and ``metadata``.

    ``metadata["title"]`` becomes the title. Scores are not written: a corpus has none.

    Raises:
        FormatError: a candidate has no id or no text, an id is repeated, or JSON cannot hold the
            metadata.
        OSError: the file cannot be written.
    """

    def lines() -> Iterator[str]:
        seen: set[str] = set()
        for number, candidate in enumerate(corpus, 1):
            name = f"candidate {number}"
            if not isinstance(candidate, Candidate):
                kind = describe(candidate)
                raise FormatError(path, None, f"{name}: must be a Candidate, not {kind}")
            identifier = record_id(candidate.id)
            if identifier is None or identifier == "":
                raise FormatError(path, None, f"{name}: has no id")
            if str(identifier) in seen:
                raise FormatError(path, None, f"{name}: the id {identifier!r} is repeated")
            seen.add(str(identifier))
            if not isinstance(candidate.text, str):
                raise FormatError(path, None, f"{name}: has no text")
            record: dict[str, object] = {"_id": identifier, "text": candidate.text}
            metadata = dict(candidate.metadata)
            if isinstance(metadata.get("title"), str) and metadata["title"]:
                record["title"] = metadata.pop("title")
            if metadata:
                record["metadata"] = metadata
            yield _json_line(path, name, record)

    write_lines(path, lines())


def write_queries(path: AnyPath, queries: Mapping[str, str]) -> None:
    """Write queries as JSON lines, or as ``id<TAB>text`` in a ``.tsv`` or ``.tsv.gz``.

    Raises:
        FormatError: an id or text does not fit the format (a TSV cannot hold tabs and line breaks).
        OSError: the file cannot be written.
    """
    check_mapping("queries", queries)
    is_tsv = uncompressed_name(path).suffix.lower() == ".tsv"

    def lines() -> Iterator[str]:
        for query, text in queries.items():
            if not isinstance(text, str):
                problem = f"the text must be a string, not {describe(text)}"
                raise FormatError(path, None, f"query {query!r}: {problem}")
            if not is_tsv:
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
        FormatError: an id has white space or is empty, a relevance is not an integer within
            :data:`~secondpass_evaluation.reading.RELEVANCE`, or a query has no judgments, which the
            format cannot express.
        OSError: the file cannot be written.
    """
    check_mapping("qrels", qrels)

    def lines() -> Iterator[str]:
        for query, judged in qrels.items():
            check_field(path, "query id", query)
            check_mapping(f"qrels[{query!r}]", judged)
            if not judged:
                raise FormatError(path, None, f"query {query!r} has no judgments to write")
            for document, relevance in judged.items():
                check_field(path, "document id", document)
                try:
                    number = whole_relevance(relevance)
                except ValueError as error:
                    problem = f"query {query!r}, document {document!r}: the relevance {error}"
                    raise FormatError(path, None, problem) from None
                yield f"{query} 0 {document} {number}\n"

    write_lines(path, lines())


def write_run(
    path: AnyPath, run: Mapping[str, Mapping[str, float]], tag: str = "secondpass"
) -> None:
    """Write a run as ``query Q0 document rank score tag``, best first, ranks from 1.

    Documents are ordered by score; equal scores keep the order of the mapping. trec_eval would
    order those by document id, so a score that is not lower than the one before it is written as
    the next lower number in single precision, by
    :func:`~secondpass_evaluation.reading.strictly_falling`. Other scores are written in full. A
    query without documents has no line; measures still count it, as one without results.

    Raises:
        FormatError: an id or the tag has white space or is empty, or a score is not finite in
            single precision.
        OSError: the file cannot be written.
    """
    check_mapping("run", run)

    def lines() -> Iterator[str]:
        check_field(path, "tag", tag)
        for query, scores in run.items():
            check_field(path, "query id", query)
            check_mapping(f"run[{query!r}]", scores)
            try:
                decreasing = strictly_falling(scores)
            except InputError as error:
                raise FormatError(path, None, f"query {query!r}, {error}") from None
            for rank, (document, score) in enumerate(decreasing.items(), 1):
                check_field(path, "document id", document)
                yield f"{query} Q0 {document} {rank} {score!r} {tag}\n"

    write_lines(path, lines())


def _json_line(path: AnyPath, name: str, record: Mapping[str, object]) -> str:
    try:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        line.encode()
    except (TypeError, ValueError) as error:
        problem = f"{name}: JSON cannot hold it ({type(error).__name__})"
        raise FormatError(path, None, problem) from None
    return line + "\n"

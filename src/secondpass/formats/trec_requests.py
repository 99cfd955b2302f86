"""Read requests from a TREC run, query by query. The corpus is not loaded into memory."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, cast

from secondpass.errors import InputError
from secondpass.formats.files import is_gzip, open_input
from secondpass.formats.lines import AnyPath, Line, decode_line, parse_object
from secondpass.formats.reading import parse_document, parse_run_line, trec_order
from secondpass.formats.requests import InputRequest, raw_lines
from secondpass.types import Candidate


class CorpusFile:
    """Documents of a corpus by id. Their offsets are in a temporary database on disk.

    ``progress`` is called with the number of documents so far.

    Raises:
        FormatError: a line is malformed, or an id is repeated.
        InputError: the file cannot be read twice, or the offsets cannot be stored.
    """

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        self.path = path
        self._file = _seekable(path)
        self._offsets = sqlite3.connect("")  # a temporary database, deleted when it is closed
        try:
            self._index(progress)
        except BaseException as error:
            self.close()
            if not isinstance(error, sqlite3.Error):
                raise
            problem = f"the offsets of its documents cannot be stored on disk: {error}"
            raise InputError(f"{path}: {problem}") from None

    def __enter__(self) -> CorpusFile:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and delete the offsets."""
        self._file.close()
        self._offsets.close()

    def get(self, identifier: str) -> tuple[Candidate, bytes] | None:
        """The document of an id and its raw line; None if there is none."""
        row = self._offsets.execute(
            "SELECT start, line FROM offsets WHERE id = ?", (_key(identifier),)
        ).fetchone()
        if row is None:
            return None
        start, number = row
        self._file.seek(start)
        raw = self._file.readline()
        line = decode_line(self.path, number, raw)
        return parse_document(line, parse_object(line)), raw.rstrip(b"\r\n")

    def _index(self, progress: Callable[[int], None]) -> None:
        if not self._file.seekable():
            raise InputError(f"{self.path}: must be a file, not a pipe: it is read more than once")
        execute = self._offsets.execute
        execute("PRAGMA journal_mode = OFF")
        execute(
            "CREATE TABLE offsets (id BLOB PRIMARY KEY, start INTEGER, line INTEGER) WITHOUT ROWID"
        )
        end = 0
        for number, raw in enumerate(self._file, 1):
            start, end = end, end + len(raw)
            line = decode_line(self.path, number, raw)
            if not line.text.strip():
                continue
            identifier = parse_document(line, parse_object(line)).id
            key = _key(str(identifier))
            try:
                execute("INSERT INTO offsets VALUES (?, ?, ?)", (key, start, number))
            except sqlite3.IntegrityError:
                (first,) = execute("SELECT line FROM offsets WHERE id = ?", (key,)).fetchone()
                problem = f"id {identifier!r} was given before, in line {first}"
                raise line.error(problem) from None
            if number % 1000 == 0:
                progress(number)


def read_run_requests(
    stream: BinaryIO, name: AnyPath, queries: Mapping[str, str], corpus: CorpusFile
) -> Iterator[InputRequest]:
    """Read the requests of a run; documents are ordered as in trec_eval.

    The lines of a query must be consecutive, so that it can be ranked before the next is read.
    """
    seen: set[str] = set()
    parsed = ((*parse_run_line(line), line, raw) for line, raw in raw_lines(stream, name))
    for query, lines in groupby(parsed, key=itemgetter(0)):
        scores: dict[str, tuple[float, Line]] = {}
        digest = hashlib.sha256()
        for _, identifier, score, line, raw in lines:
            if not scores and query in seen:
                problem = f"the lines of query {query!r} are not consecutive; sort the run"
                raise line.error(problem)
            if query not in queries:
                raise line.error(f"query {query!r} is not among the queries")
            if identifier in scores:
                raise line.error(f"query {query!r} has document {identifier!r} twice")
            scores[identifier] = (score, line)
            digest.update(raw + b"\n")
        seen.add(query)
        yield _request(query, queries[query], scores, corpus, digest)


def _request(
    query_id: str,
    query: str,
    scores: Mapping[str, tuple[float, Line]],
    corpus: CorpusFile,
    digest: Any,
) -> InputRequest:
    digest.update(query.encode("utf-8", "surrogatepass") + b"\n")
    size, candidates = 0, []
    ordered = trec_order({identifier: score for identifier, (score, _) in scores.items()})
    for identifier, score in ordered.items():
        entry = corpus.get(identifier)
        if entry is None:
            problem = f"document {identifier!r} is not in {corpus.path}"
            raise scores[identifier][1].error(problem)
        document, raw = entry
        candidates.append(replace(document, score=score))
        digest.update(raw + b"\n")
        size += len(raw)
    return InputRequest(query_id, query, candidates, None, digest.digest(), size)


def _seekable(path: Path) -> BinaryIO:
    """The file, or a temporary one with the content of a compressed file."""
    if not is_gzip(path):
        return open(path, "rb")
    content = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - CorpusFile closes it
    with open_input(path) as file:
        shutil.copyfileobj(file, content)
    content.seek(0)
    return content


def _key(identifier: str) -> bytes:
    return identifier.encode("utf-8", "surrogatepass")

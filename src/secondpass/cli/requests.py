"""What ``secondpass rerank`` reads: requests one after the other, none held longer than needed."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from secondpass.candidates import to_candidates
from secondpass.errors import InputError
from secondpass.formats.lines import AnyPath, Line, decode_line, parse_json, parse_object
from secondpass.formats.reading import parse_document, parse_run_line
from secondpass.formats.runs import trec_order
from secondpass.settings import describe
from secondpass.types import Candidate


@dataclass(frozen=True, slots=True)
class Ask:
    """One ranking that is asked for.

    Attributes:
        query_id: None where the input gives its queries no ids.
        query: what is searched for.
        candidates: in the order of the retriever.
        context: anything that the method wants to know about this query.
        settings: of this call, by the names of the parameters of ``rerank``.
        digest: of all that it was read from.
        size: of that, in bytes.
    """

    query_id: str | None
    query: str = field(repr=False)
    candidates: list[Candidate] = field(repr=False)
    context: Any = field(repr=False)
    digest: bytes
    size: int
    settings: dict[str, Any] = field(default_factory=dict)


CALL_SETTINGS = ("top_k", "depth", "order", "floor", "dedupe")
"""Settings of a call that a request may have."""

_ID_KEYS = ("query_id", "id", "_id")
KNOWN_KEYS = frozenset({"query", "candidates", "context", *_ID_KEYS, *CALL_SETTINGS})


def windows(asks: Iterable[Ask], count: int, size: int) -> Iterator[list[Ask]]:
    """Requests that are ranked side by side: at most so many, and of about so many bytes."""
    window: list[Ask] = []
    held = 0
    for ask in asks:
        window.append(ask)
        held += ask.size
        if len(window) == count or held >= size:
            yield window
            window, held = [], 0
    if window:
        yield window


# ---------------------------------------------------------------------- JSON lines


def of_one_query(stream: BinaryIO, name: AnyPath, query: str, *, text_needed: bool) -> Ask:
    """Candidates, one a line, of one query.

    Raises:
        FormatError: a line is no candidate.
    """
    digest, size, candidates = hashlib.sha256(), 0, []
    for line, raw in _lines(stream, name):
        value = parse_json(line)
        if isinstance(value, dict) and "candidates" in value:
            raise line.error("has candidates of its own; leave --query out to rank these")
        if isinstance(value, list):
            raise line.error("is a list; give each candidate a line of its own")
        candidates.append(_candidate(line, value, text_needed))
        digest.update(raw + b"\n")
        size += len(raw)
    return Ask(None, query, candidates, None, digest.digest(), size)


def of_lines(
    stream: BinaryIO,
    name: AnyPath,
    *,
    text_needed: bool,
    check: Callable[[Mapping[str, Any]], None],
    unknown: Callable[[Line, str], None],
) -> Iterator[Ask]:
    """Requests, one a line: ``query``, ``candidates``, and what else is in ``KNOWN_KEYS``.

    Args:
        stream: the lines.
        name: of the stream, for messages.
        text_needed: whether a candidate must have text.
        check: raises InputError if the settings of a call are wrong.
        unknown: is told each key that a request does not have, with its line.

    Raises:
        FormatError: a line is no request, an id repeats, or only some lines have one.
    """
    seen: dict[str, int] = {}
    with_ids: bool | None = None
    for line, raw in _lines(stream, name):
        value = parse_object(line)
        if "query" not in value and ("text" in value or "content" in value):
            raise line.error("has no 'query'; to rank these lines as candidates, give --query")
        query, listed = value.get("query"), value.get("candidates")
        if not isinstance(query, str):
            raise line.error(f"needs a 'query': a string, not {describe(query)}")
        if not isinstance(listed, list):
            raise line.error(f"needs 'candidates': a list, not {describe(listed)}")
        identifier = _id(line, value, _ID_KEYS)
        if with_ids is None:
            with_ids = identifier is not None
        elif with_ids != (identifier is not None):
            have = "has no 'query_id'" if with_ids else "has a 'query_id'"
            raise line.error(f"{have}, unlike the lines before; give every line one, or none")
        if identifier is not None and seen.setdefault(identifier, line.number) != line.number:
            raise line.error(f"id {identifier!r} was given before, in line {seen[identifier]}")
        candidates = [
            _candidate(line, one, text_needed, f"candidate {number}: ")
            for number, one in enumerate(listed, 1)
        ]
        for key in value.keys() - KNOWN_KEYS:
            unknown(line, key)
        settings = _settings(line, value, check)
        digest = hashlib.sha256(raw).digest()
        yield Ask(identifier, query, candidates, value.get("context"), digest, len(raw), settings)


def _settings(
    line: Line, value: Mapping[str, Any], check: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """The settings of its own that a request has; null is none."""
    settings = {key: value[key] for key in CALL_SETTINGS if value.get(key) is not None}
    dedupe = settings.get("dedupe", False)
    if not isinstance(dedupe, bool):
        raise line.error(f"dedupe: must be true or false, not {describe(dedupe)}")
    try:
        check(settings)
    except InputError as error:
        raise line.error(str(error)) from None
    return settings


def _lines(stream: BinaryIO, name: AnyPath) -> Iterator[tuple[Line, bytes]]:
    """The lines that are not blank, each as text and as it stands in the file, but for its end:

    The last line has none before a file grows, and is the same line when it has.
    """
    for number, raw in enumerate(stream, 1):
        line = decode_line(name, number, raw)
        if line.text.strip():
            yield line, raw.rstrip(b"\r\n")


def _candidate(line: Line, value: Any, text_needed: bool, where: str = "") -> Candidate:
    """A candidate as the library reads it; ``_id`` does for ``id``, as in corpora."""
    if isinstance(value, dict):
        identifier = _id(line, value, ("id", "_id"), where)
        score = value.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float | None):
            raise line.error(f"{where}the score must be a number, not {describe(score)}")
        value = {key: part for key, part in value.items() if key not in {"id", "_id"}}
        value["id"] = identifier
    elif not isinstance(value, str):
        raise line.error(f"{where}must be an object or a string, not {describe(value)}")
    try:
        return to_candidates([value], text_needed=text_needed)[0]
    except InputError as error:
        told = str(error).removeprefix("candidates[0]").lstrip(".: ")
        raise line.error(where + told) from None


def _id(line: Line, value: Mapping[str, Any], keys: tuple[str, ...], where: str = "") -> str | None:
    given = {key: value[key] for key in keys if value.get(key) is not None}
    for key, one in given.items():
        if isinstance(one, bool) or not isinstance(one, str | int):
            raise line.error(f"{where}{key!r} must be a string or an integer, not {describe(one)}")
    if len({str(one) for one in given.values()}) > 1:
        raise line.error(f"{where}has {' and '.join(map(repr, given))}, and they differ")
    return next((str(one) for one in given.values()), None)


# ---------------------------------------------------------------------- TREC runs


class Documents:
    """A corpus of JSON lines, whose texts stay in the file: only their places are kept, on disk.

    Args:
        path: of the corpus; lines with ``_id`` (or ``id``), ``text``, ``title``, ``metadata``.
        progress: is told how many there are so far.

    Raises:
        FormatError: a line is malformed, or has the id of another.
        InputError: the file cannot be read twice, or there is no room for the places.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        self.path = path
        self._file = open(path, "rb")  # noqa: SIM115 - closed with this
        self._places = sqlite3.connect("")  # of its own, on disk, gone when it is closed
        try:
            self._index(progress)
        except sqlite3.Error as error:
            self.close()
            told = f"{path}: the places of its documents cannot be kept on disk: {error}"
            raise InputError(told) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Documents:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and the places."""
        self._file.close()
        self._places.close()

    def _index(self, progress: Callable[[int], None]) -> None:
        if not self._file.seekable():
            raise InputError(f"{self.path}: a corpus is read more than once; give a file")
        execute = self._places.execute
        execute("PRAGMA journal_mode = OFF")
        execute(
            "CREATE TABLE places (id BLOB PRIMARY KEY, start INTEGER, line INTEGER) WITHOUT ROWID"
        )
        start = 0
        for number, raw in enumerate(self._file, 1):
            place, start = start, start + len(raw)
            line = decode_line(self.path, number, raw)
            if not line.text.strip():
                continue
            identifier = parse_document(line, parse_object(line)).id or ""
            key = _key(identifier)
            try:
                execute("INSERT INTO places VALUES (?, ?, ?)", (key, place, number))
            except sqlite3.IntegrityError:
                (before,) = execute("SELECT line FROM places WHERE id = ?", (key,)).fetchone()
                told = f"id {identifier!r} was given before, in line {before}"
                raise line.error(told) from None
            if number % 1000 == 0:
                progress(number)

    def get(self, identifier: str) -> tuple[Candidate, bytes] | None:
        """The document and the line that it stands in; None where there is none of this id."""
        found = self._places.execute(
            "SELECT start, line FROM places WHERE id = ?", (_key(identifier),)
        ).fetchone()
        if found is None:
            return None
        self._file.seek(found[0])
        raw = self._file.readline()
        line = decode_line(self.path, found[1], raw)
        return parse_document(line, parse_object(line)), raw.rstrip(b"\r\n")


def of_run(
    stream: BinaryIO, name: AnyPath, queries: Mapping[str, str], documents: Documents
) -> Iterator[Ask]:
    """Requests of a TREC run: the documents of each query in the order that trec_eval gives them.

    The lines of a query have to stand together, so that it can be ranked before the next is read.

    Raises:
        FormatError: a line is malformed, the lines of a query do not stand together, or a query or
            document has no text.
    """
    seen: set[str] = set()
    current: str | None = None
    found: dict[str, tuple[float, Line]] = {}
    digest = hashlib.sha256()
    for line, raw in _lines(stream, name):
        query, identifier, score = parse_run_line(line)
        if query != current:
            if current is not None:
                yield _of_group(current, queries[current], found, documents, digest)
            if query in seen:
                told = f"query {query!r} was there before, with others between; sort the run"
                raise line.error(told)
            if query not in queries:
                raise line.error(f"query {query!r} is not among the queries")
            seen.add(query)
            current, found, digest = query, {}, hashlib.sha256()
        if identifier in found:
            raise line.error(f"query {query!r} has document {identifier!r} twice")
        found[identifier] = (score, line)
        digest.update(raw + b"\n")
    if current is not None:
        yield _of_group(current, queries[current], found, documents, digest)


def _of_group(
    query: str,
    text: str,
    found: Mapping[str, tuple[float, Line]],
    documents: Documents,
    digest: Any,
) -> Ask:
    digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    size, candidates = 0, []
    ordered = trec_order({identifier: score for identifier, (score, _) in found.items()})
    for identifier, score in ordered.items():
        held = documents.get(identifier)
        if held is None:
            told = f"document {identifier!r} is not in {documents.path}"
            raise found[identifier][1].error(told)
        candidate, raw = held
        candidates.append(Candidate(candidate.text, identifier, score, candidate.metadata))
        digest.update(raw + b"\n")
        size += len(raw)
    return Ask(query, text, candidates, None, digest.digest(), size)


def _key(identifier: str) -> bytes:
    return identifier.encode("utf-8", "surrogatepass")

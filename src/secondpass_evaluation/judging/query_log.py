"""Reads queries to judge from a file of queries or a log of JSON lines."""

from __future__ import annotations

import hashlib
from pathlib import Path

from secondpass.errors import InputError
from secondpass.formats.compression import open_input
from secondpass.formats.lines import AnyPath, Line, read_json_lines
from secondpass.formats.reading import read_queries
from secondpass.ranking.candidates import query_key
from secondpass.ranking.rendering import well_formed
from secondpass.settings import describe
from secondpass_evaluation.candidate_lists import checked_id
from secondpass_evaluation.loading import QUERY_KEYS


def read_query_log(path: AnyPath) -> dict[str, str]:
    """Queries by id, each text once.

    Reads JSON lines with ``query``, ``question`` or ``text``, and any other keys; and lines of
    ``id<TAB>text``. A line without an ``_id`` or ``id`` gets an id computed from its text, which
    stays the same while the log grows. Of texts that differ only in white space and case, the first
    is used; lines with an empty text are left out.

    Raises:
        FormatError: a line is malformed, or two texts have the same id.
        InputError: there is no query.
        OSError: the file cannot be read.
    """
    with open_input(Path(path)) as file:
        is_json = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    queries: dict[str, str] = {}
    seen: set[str] = set()
    if is_json:
        for line, record in read_json_lines(path):
            text = next((record[key] for key in QUERY_KEYS if key in record), None)
            if not isinstance(text, str):
                named = "a 'query' (or 'question', or 'text')"
                raise line.error(f"needs {named}: a string, not {describe(text)}")
            _add(queries, seen, _id(line, record, text), text, line)
    else:
        for identifier, text in read_queries(path).items():
            _add(queries, seen, identifier, text, None)
    if not queries:
        raise InputError(f"{path}: there are no queries")
    return queries


def _add(
    queries: dict[str, str], seen: set[str], identifier: str, text: str, line: Line | None
) -> None:
    text = well_formed(text)  # JSON can hold lone surrogates, files cannot
    plain = query_key(text)
    if not plain or plain in seen:
        return
    if line is not None and identifier in queries:
        raise line.error(f"the id {identifier!r} has another text in an earlier line")
    seen.add(plain)
    queries[identifier] = text


def _id(line: Line, record: dict[str, object], text: str) -> str:
    value = record.get("_id", record.get("id"))
    if value is None:
        return "q" + hashlib.sha256(query_key(well_formed(text)).encode()).hexdigest()[:12]
    return checked_id(line, value, "the id")

"""Lines of text and of JSON, for reading and writing."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from secondpass.errors import printable
from secondpass.formats.errors import FormatError
from secondpass.formats.files import atomic_write, compress_into, is_gzip, open_input
from secondpass.settings import describe
from secondpass.settings.messages import not_utf8

AnyPath: TypeAlias = str | PathLike[str]
INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
"""An integer in a file."""
_SAFE_DIGITS = 300  # characters of an integer that is within the range of a float


class Line(NamedTuple):
    """One line of a file: 1-based number, and text without the line end."""

    path: AnyPath
    number: int
    text: str

    def error(self, problem: str) -> FormatError:
        return FormatError(self.path, self.number, problem)

    def check_new(self, identifier: object, seen: dict[str, int]) -> None:
        """Raise a FormatError if an id is that of an earlier line; ``seen`` has their numbers."""
        first = seen.setdefault(str(identifier), self.number)
        if first != self.number:
            raise self.error(f"id {identifier!r} was given before, in line {first}")


def read_lines(path: AnyPath) -> Iterator[Line]:
    """The lines that are not blank, in UTF-8. Only a line feed ends a line."""
    # Bytes: a text file decodes ahead, so an error could not name its line.
    with open_input(path) as file:
        for number, raw in enumerate(file, 1):
            line = decode_line(path, number, raw)
            if line.text.strip():
                yield line


def decode_line(path: AnyPath, number: int, raw: bytes) -> Line:
    """Decode a line of UTF-8; a byte order mark at the start of the file is removed."""
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(path, number, not_utf8(path, error)) from None
    return Line(path, number, text.rstrip("\r\n"))


def read_json_lines(path: AnyPath) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The lines that are not blank, each with its JSON object."""
    for line in read_lines(path):
        yield line, parse_object(line)


def parse_object(line: Line) -> dict[str, Any]:
    """Parse a line that must be a JSON object."""
    record = parse_json(line)
    if not isinstance(record, dict):
        raise line.error(f"must be a JSON object, not {describe(record)}")
    return record


def parse_json(line: Line) -> Any:
    """Parse a line by :func:`strict_json`; raises a FormatError."""
    try:
        return strict_json(line.text)
    except DoubledKeyError as error:
        raise line.error(str(error)) from None
    except json.JSONDecodeError as error:
        raise line.error(
            f"is not JSON: {error.msg} at column {error.colno}; each line must be one value"
            f"{conversion(line.path)}"
        ) from None
    except RecursionError:
        raise line.error("is not JSON that can be parsed: it is nested too deeply") from None
    except ValueError as error:
        raise line.error(f"is not JSON: {error}") from None


_FROM_CSV = "import csv, json, sys; [print(json.dumps(row)) for row in csv.DictReader(sys.stdin{})]"
_CONVERSIONS = {
    ".csv": f"python -c '{_FROM_CSV.format('')}' < {{}} > new.jsonl",
    ".tsv": "python -c '" + _FROM_CSV.format(', delimiter="\\t"') + "' < {} > new.jsonl",
    ".json": "jq -c 'if type == \"array\" then .[] else . end' {} > new.jsonl",
}
"""Ending of a file that is no JSON lines -> a command that makes JSON lines of it."""


def conversion(path: AnyPath) -> str:
    """``; …`` how to make JSON lines of a file; empty where its name does not say what it is."""
    command = _CONVERSIONS.get(Path(path).suffix.lower())
    name = shlex.quote(printable(str(path)))
    return "" if command is None else f"; convert the file: `{command.format(name)}`"


_RENAMED: Mapping[str, Sequence[str]] = {
    "candidates": ("documents", "passages", "contexts", "docs", "texts", "results", "hits"),
    "relevant": ("answers", "relevant_ids", "relevant_docs", "positives", "positive_ids", "qrels"),
    "id": ("doc_id", "docid", "docno", "document_id", "corpus_id", "pid", "passage_id"),
    "query": ("question", "query_text", "search_query", "q", "prompt"),
    "text": ("contents", "content", "page_content", "body", "passage", "document", "snippet"),
}
"""Key of a record -> names that other tools give it."""
_MOST_KEYS, _LONGEST_KEY = 8, 40
"""Keys of a record that a message lists, and their characters."""


def instead_of(record: Mapping[str, Any], key: str) -> str:
    """``, not …`` the value of a key; ``; …`` which key to rename, or which there are, without it.

    ``key`` is one for which :data:`_RENAMED` has other names.
    """
    if key in record:
        return f", not {describe(record[key])}"
    other = next((name for name in _RENAMED[key] if name in record), None)
    if other is not None:
        return f"; rename {other!r} to {key!r}"
    keys = ", ".join(repr(printable(name[:_LONGEST_KEY])) for name in [*record][:_MOST_KEYS])
    return f"; the line has only {keys}" if keys else "; the line has no key"


class DoubledKeyError(ValueError):
    """An object of a JSON text has a key twice, so one of its values would be lost."""


def strict_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        DoubledKeyError: an object has a key twice.
        ValueError: it is not JSON, or has NaN or a number beyond the range of a float.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text,
        parse_constant=_reject_constant,
        parse_float=_finite_float,
        parse_int=_finite_int,
        object_pairs_hook=_unique_keys,
    )


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        [(key, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise DoubledKeyError(f"the key {printable(key[:_LONGEST_KEY])!r} is there twice")
    return record


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    """The number that a JSON text writes; raises a ValueError if a float cannot hold it."""
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _finite_int(text: str) -> int:
    """The integer that a JSON text writes; raises a ValueError beyond the range of a float."""
    if len(text) > _SAFE_DIGITS:
        _finite_float(text)
    return int(text)


def check_field(path: AnyPath, name: str, value: object) -> None:
    """Raise a FormatError unless a value fits in one field of a line separated by white space.

    Its message begins with ``name``.
    """
    problem = ""
    if not isinstance(value, str) or not value:
        problem = f"must be a string that is not empty, not {describe(value)}"
    elif value.split() != [value]:
        problem = f"{value!r} has white space, which separates the fields of this format"
    elif value.startswith("\ufeff") or "\0" in value:
        # A byte order mark would be dropped at the start of a file; NUL ends a string in trec_eval.
        problem = f"{value!r} has a byte order mark or a null character"
    elif any("\ud800" <= character <= "\udfff" for character in value):
        problem = f"{value!r} has a lone surrogate, which UTF-8 cannot hold"
    if problem:
        raise FormatError(path, None, f"{name} {problem}")


def write_lines(path: AnyPath, lines: Iterable[str]) -> None:
    """Write a file atomically: after any exception it is unchanged. ``.gz`` is compressed."""
    with atomic_write(Path(path)) as file:
        encoded = (line.encode() for line in lines)
        if is_gzip(path):
            compress_into(file, encoded)
        else:
            file.writelines(encoded)

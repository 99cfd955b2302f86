"""Files of lines, read and written by :mod:`secondpass.formats.reading`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from secondpass.formats.errors import FormatError
from secondpass.formats.files import replacing
from secondpass.settings import describe

AnyPath: TypeAlias = str | PathLike[str]
INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
"""A whole number as the formats hold it: read and written by the same rule."""


class Line(NamedTuple):
    """One line of a file: 1-based number, text without its end."""

    path: AnyPath
    number: int
    text: str

    def error(self, problem: str) -> FormatError:
        return FormatError(self.path, self.number, problem)


def read_lines(path: AnyPath) -> Iterator[Line]:
    """The lines that are not blank. Lines end at line feeds only.

    Raises:
        FormatError: a line is not UTF-8.
    """
    # Bytes, because text files decode ahead and could not name the line that is not UTF-8.
    with open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            line = line_of(path, number, raw)
            if line.text.strip():
                yield line


def line_of(path: AnyPath, number: int, raw: bytes) -> Line:
    """A line as it stands in a file, which may begin with a byte order mark.

    Raises:
        FormatError: it is not UTF-8.
    """
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(path, number, f"is not UTF-8: {error.reason}") from None
    return Line(path, number, text.rstrip("\r\n"))


def read_json_lines(path: AnyPath) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The lines that are not blank, with the object that each holds.

    Raises:
        FormatError: a line is not a JSON object.
    """
    for line in read_lines(path):
        yield line, object_of(line)


def object_of(line: Line) -> dict[str, Any]:
    """The JSON object that a line holds.

    Raises:
        FormatError: it holds none.
    """
    record = json_of(line)
    if not isinstance(record, dict):
        raise line.error(f"must be a JSON object, not {describe(record)}")
    return record


def json_of(line: Line) -> Any:
    """The value that a line holds.

    Raises:
        FormatError: it holds none, or one with a number that JSON does not have.
    """
    try:
        return json.loads(line.text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        told = f"is not JSON: {error.msg} at column {error.colno}"
        raise line.error(f"{told}; each line holds one whole value") from None
    except RecursionError:
        raise line.error("is not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise line.error(f"is not JSON: {error}") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number there")


def check_field(path: AnyPath, what: str, identifier: object) -> None:
    """Refuse what can't stand in one field of a line that white space divides.

    Raises:
        FormatError: naming ``what``.
    """
    problem = ""
    if not isinstance(identifier, str) or not identifier:
        problem = f"must be a string that is not empty, not {describe(identifier)}"
    elif identifier.split() != [identifier]:
        problem = f"{identifier!r} has white space, which separates the fields of this format"
    elif identifier.startswith("\ufeff") or "\0" in identifier:
        # The one would be taken for the file's mark, the other ends a string in trec_eval.
        problem = f"{identifier!r} has a byte order mark or a null character"
    elif any("\ud800" <= character <= "\udfff" for character in identifier):
        problem = f"{identifier!r} has a lone surrogate, which UTF-8 cannot hold"
    if problem:
        raise FormatError(path, None, f"{what} {problem}")


def write_lines(path: AnyPath, lines: Iterable[str]) -> None:
    """Write a file whole or, when anything is raised on the way, not at all."""
    with replacing(Path(path)) as file:
        file.writelines(line.encode() for line in lines)

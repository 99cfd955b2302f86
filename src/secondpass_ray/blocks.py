"""Reads blocks: consecutive rows of the input, which one worker ranks and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple

from secondpass.formats.errors import FormatError
from secondpass_ray.storage import open_file

LINES, PARQUET = "lines", "parquet"
"""Formats of blocks."""
_PARQUET_ROWS = 64
"""Rows of Parquet to hold in memory at a time."""

REQUEST = "request"
"""Column with the JSON text of a request."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one file.

    Attributes:
        file: path or URI of the file.
        source: name of the file in messages, within the input; the original's if ``file`` is a
            copy.
        form: ``LINES`` (JSON lines) or ``PARQUET``.
        start, stop: range of the rows in the file: bytes of lines, or row groups of Parquet.
        line: 1-based number, in the source, of the first line or row.
        first: number of the first row in the input, from 0.
        rows: number of rows.
    """

    file: str
    source: str
    form: str
    start: int
    stop: int
    line: int
    first: int
    rows: int


class Row(NamedTuple):
    """One row of the input.

    Attributes:
        number: number in the whole input, from 0; None if rows are not numbered.
        source: name of its file in messages.
        line: 1-based number of the line or row in the file.
        content: the JSON text, or the error if there is none.
    """

    number: int | None
    source: str
    line: int
    content: bytes | FormatError


def read_rows(block: Block, first: int) -> Iterator[Row]:
    """The rows of a block, from row ``first`` on."""
    number = block.first
    with open_file(block.file) as file:
        is_lines = block.form == LINES
        skip = first - block.first
        rows = _lines(block, file) if is_lines else _parquet_rows(block, file, skip)
        for line, content in rows:
            if number >= first:
                yield Row(number, block.source, line, content)
            number += 1
    if number != block.first + block.rows:
        raise FormatError(block.source, None, "has changed since the job was started")


def is_blank(raw: bytes) -> bool:
    """Whether a line is skipped: only white space, as in :mod:`secondpass.formats.lines`."""
    stripped = raw.strip()
    if not stripped:
        return True
    if stripped.startswith(b"{"):
        return False
    return not raw.decode("utf-8-sig", "replace").strip()


def _lines(block: Block, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    file.seek(block.start)
    position, number = block.start, block.line
    while position < block.stop and (raw := file.readline()):
        if not is_blank(raw):
            yield number, raw
        position, number = position + len(raw), number + 1


def _parquet_rows(
    block: Block, file: BinaryIO, skip: int
) -> Iterator[tuple[int, bytes | FormatError]]:
    """The rows of row groups; the first ``skip`` are not decoded, but empty."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as table:
        number = block.line
        groups = range(block.start, block.stop)
        for batch in table.iter_batches(batch_size=_PARQUET_ROWS, row_groups=[*groups]):
            skipped = min(batch.num_rows, max(0, block.line + skip - number))
            for _ in range(skipped):
                yield number, b""
                number += 1
            for text in record_texts(batch.slice(skipped), block.source, number):
                yield number, text
                number += 1


def record_texts(table: Any, source: str, line: int) -> Iterator[bytes | FormatError]:
    """The JSON text of each row of an Arrow table, the first of which has the number ``line``."""
    for index in range(table.num_rows):
        # One by one, so that a value that Python cannot represent fails only its own row.
        try:
            (record,) = table.slice(index, 1).to_pylist(maps_as_pydicts="strict")
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            problem = f"Python cannot hold its values ({type(error).__name__})"
            yield FormatError(source, line + index, problem)
        else:
            yield record_text(record, source, line + index)


def record_text(record: Mapping[str, Any], source: str, line: int) -> bytes | FormatError:
    """The JSON text of a row of columns, or the error if it has none.

    A column ``request`` has the text already. Otherwise the columns are the keys of a request, and
    a null means that the key is absent, since all rows have the same columns.
    """
    text = record.get(REQUEST)
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return json.dumps(_present(record), allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"JSON cannot hold its values ({type(error).__name__})"
        return FormatError(source, line, problem)


def _present(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _present(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_present(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "tolist"):  # an array or a number of numpy
        return value.tolist()
    raise TypeError

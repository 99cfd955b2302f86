"""Finds the files of the input, and reads them once for their blocks and their hash."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from secondpass import InputError
from secondpass.formats.shared import FormatError
from secondpass_ray.blocks import Block, is_blank
from secondpass_ray.storage import files_in, is_uri, joined, kind_of, open_file

LINES, PACKED_LINES, PARQUET = "lines", "lines.gz", "parquet"
_SUFFIXES = {
    ".jsonl": LINES,
    ".ndjson": LINES,
    ".json": LINES,
    ".jsonl.gz": PACKED_LINES,
    ".ndjson.gz": PACKED_LINES,
    ".json.gz": PACKED_LINES,
    ".parquet": PARQUET,
}
BLOCK_BYTES = 16 * 2**20
"""Bytes of lines after which a block ends."""

NOT_A_FILE = "must be a regular file: a job reads its input more than once, which a pipe cannot do"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the input: its path or URI, and its format."""

    name: str
    form: str


def input_files(name: str) -> list[InputFile]:
    """The file of a path or URI, or the files of known formats below a folder, by name."""
    kind, known = kind_of(name), ", ".join(_SUFFIXES)
    if kind is None:
        raise InputError(f"{name}: there is no such file or folder")
    if kind == "file":
        if not is_uri(name) and not Path(name).is_file():
            raise InputError(f"{name}: {NOT_A_FILE}")
        if (form := _form(name)) is None:
            raise InputError(f"{name}: its format is not known; the name must end in {known}")
        return [InputFile(name, form)]
    files = [
        InputFile(joined(name, child), form)
        for child in files_in(name)
        if (form := _form(child)) is not None
        and not any(part.startswith((".", "_")) for part in child.split("/"))
    ]
    if not files:
        raise InputError(f"{name}: has no file whose name ends in {known}")
    return files


def scan(
    file: InputFile, source: str, rows: int, first: int, progress: Callable[[int], None]
) -> tuple[list[Block], str]:
    """The blocks of a file that is not compressed, from row ``first`` on, and its hash.

    ``source`` is its name in messages; a block has at most this number of rows.
    """
    if file.form == PARQUET:
        return _parquet_blocks(file.name, source, rows, first), hash_of(file.name)
    digest = hashlib.sha256()
    blocks: list[Block] = []
    start = position = count = 0
    line = number = 1

    def end_block() -> None:
        nonlocal first, start, line, count
        blocks.append(Block(file.name, source, LINES, start, position, line, first, count))
        first, start, line, count = first + count, position, number + 1, 0
        progress(first)

    with open_file(file.name) as lines:
        for number, raw in enumerate(lines, 1):
            digest.update(raw)
            position += len(raw)
            if is_blank(raw):
                continue
            check_object(file.name, number, raw)
            count += 1
            if count == rows or position - start >= BLOCK_BYTES:
                end_block()
    if count:
        end_block()
    return blocks, digest.hexdigest()


def hash_of(name: str) -> str:
    """The hash of a file."""
    with open_file(name) as file:
        return hashlib.file_digest(cast("BufferedReader", file), "sha256").hexdigest()


def _form(name: str) -> str | None:
    path = name.partition("?")[0].lower() if "://" in name else name.lower()
    fitting = [suffix for suffix in _SUFFIXES if path.endswith(suffix)]
    return _SUFFIXES[max(fitting, key=len)] if fitting else None


def check_object(name: str, number: int, raw: bytes) -> None:
    """Check that a line looks like a JSON object, without parsing it."""
    text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
    if not text.lstrip().startswith(b"{"):
        raise FormatError(name, number, "must be a JSON object, which begins with {")


def _parquet_blocks(name: str, source: str, rows: int, first: int) -> list[Block]:
    """Blocks of whole row groups; a block can have several small groups."""
    blocks: list[Block] = []
    line, start, count = 1, 0, 0
    sizes = _row_groups(name)
    for group, size in enumerate([*sizes, 0]):
        if count and (count + size > rows or group == len(sizes)):
            blocks.append(Block(name, source, PARQUET, start, group, line, first, count))
            line, first, start, count = line + count, first + count, group, 0
        count += size
    return blocks


def _row_groups(name: str) -> list[int]:
    """The number of rows of each row group of a Parquet file that has the columns of requests."""
    import pyarrow
    import pyarrow.parquet

    try:
        with open_file(name) as file, pyarrow.parquet.ParquetFile(file) as table:
            metadata: Any = table.metadata
            columns = Counter(table.schema_arrow.names)
            sizes = [metadata.row_group(index).num_rows for index in range(table.num_row_groups)]
    except pyarrow.ArrowException as error:
        problem = f"is not a Parquet file, or damaged ({type(error).__name__})"
        raise FormatError(name, None, problem) from None
    if "request" not in columns and not {"query", "candidates"} <= columns.keys():
        listed = ", ".join(sorted(columns)[:8]) or "none"
        problem = f"needs the columns 'query' and 'candidates', or 'request'; it has: {listed}"
        raise FormatError(name, None, problem)
    if twice := [column for column in columns if columns[column] > 1]:
        raise FormatError(name, None, f"has the column {twice[0]!r} twice")
    return sizes

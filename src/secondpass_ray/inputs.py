"""The input of a job: its files, its blocks, and the hash that detects changes.

Compressed lines and TREC runs, which cannot be read from the middle, are copied: to JSON lines in
the job's folder, one file per block. Copies are written before anything is ranked, and deleted when
the job is done.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, cast

from secondpass import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.files import open_input
from secondpass.formats.reading import read_queries
from secondpass.formats.requests import request_line
from secondpass.formats.trec_requests import CorpusFile, read_run_requests
from secondpass.types import Progress
from secondpass_ray.blocks import LINES, PARQUET, Block, is_blank
from secondpass_ray.storage import (
    files_in,
    in_parallel,
    is_uri,
    is_within,
    joined,
    kind_of,
    located,
    open_file,
    stamp,
    write_whole,
)

PACKED_LINES = "lines.gz"
_FORMS = {
    ".jsonl": LINES,
    ".ndjson": LINES,
    ".json": LINES,
    ".jsonl.gz": PACKED_LINES,
    ".ndjson.gz": PACKED_LINES,
    ".json.gz": PACKED_LINES,
    ".parquet": PARQUET,
}
"""Suffix of a file -> its format."""
BLOCK_BYTES = 16 * 2**20
"""Bytes of lines after which a block ends."""
_COPY = re.compile(r"input-[0-9]{12,}\.jsonl")
_NOT_A_FILE = "must be a regular file: a job reads its input more than once, which a pipe cannot do"


@dataclass(frozen=True, slots=True)
class JobInput:
    """The input of a job: a path or URI of JSON lines or Parquet, or a TREC run."""

    name: str | None = None
    run: Path | None = None
    queries: Path | None = None
    corpus: Path | None = None

    def prepare(self, folder: str, rows: int, progress: Progress) -> tuple[list[Block], str]:
        """Read the input once; return its blocks, of at most ``rows``, and its hash.

        Files that cannot be read from the middle are copied to the folder of the job. Rows are
        checked in full only when they are ranked.
        """
        if self.run is not None and self.queries is not None and self.corpus is not None:
            lines = _run_lines(self.run, read_queries(self.queries), self.corpus, progress)
            return [*_copied(folder, self.run.name, lines, 0, rows)], self.hash()
        blocks: list[Block] = []
        hashes: list[str] = []
        first = 0
        for file in self.files():
            source, digest = self._relative(file.name), hashlib.sha256()
            if file.form == LINES:
                found = _line_blocks(file.name, source, first, rows, digest)
            elif file.form == PARQUET:
                found = _parquet_blocks(file.name, source, first, rows)
            else:
                found = _copied(folder, source, _packed_lines(file.name), first, rows)
            for block in found:
                blocks.append(block)
                first = block.first + block.rows
                progress("Reading the input", first, None)
            # After the blocks, as a file that is not valid is not read whole.
            hashes.append(_named(file, digest if file.form == LINES else _digest(file.name)))
        return blocks, _combined(hashes)

    def hash(self) -> str:
        """The hash of the names and contents of all files, in order."""
        if self.run is not None:
            paths = (self.run, self.queries, self.corpus)
            return _combined(_digest(str(path)).hexdigest() for path in paths)
        return _combined(_named(file, _digest(file.name)) for file in self.files())

    def stamps(self) -> dict[str, tuple[int, int | None]]:
        """Sizes and times of the files that workers read; empty for a run, which is copied."""
        names = [] if self.run is not None else [file.name for file in self.files()]
        return dict(zip(names, in_parallel(stamp, names), strict=True))

    def names(self) -> list[str]:
        """The absolute paths or URIs of the input."""
        names = (self.name, self.run, self.queries, self.corpus)
        return [located(str(name)) for name in names if name is not None]

    def check(self) -> None:
        """Check that there is an input, without reading it."""
        if self.run is None:
            self.files()
        for path in (self.run, self.queries, self.corpus):
            if path is not None and not path.exists():
                raise InputError(f"{path}: there is no such file")
            if path is not None and not path.is_file():
                raise InputError(f"{path}: {_NOT_A_FILE}")

    def files(self) -> list[InputFile]:
        """The file of the path or URI, or those of known formats below the folder, by name."""
        name = located(self.name or "")
        kind, known = kind_of(name), ", ".join(_FORMS)
        if kind is None:
            raise InputError(f"{name}: there is no such file or folder")
        if kind == "file":
            if not is_uri(name) and not Path(name).is_file():
                raise InputError(f"{name}: {_NOT_A_FILE}")
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

    def _relative(self, name: str) -> str:
        """The name of a file within the input, for messages that are part of the output."""
        root = located(self.name or "").partition("?")[0].rstrip("/")
        path = name.partition("?")[0]
        return path[len(root) + 1 :] if is_within(path, root) else path.rpartition("/")[2]


class InputFile(NamedTuple):
    """A file of the input: its path or URI, and its format."""

    name: str
    form: str


def is_copy(name: str) -> bool:
    """Whether this is the name of a copy in the folder of a job."""
    return _COPY.fullmatch(name) is not None


def _form(name: str) -> str | None:
    path = name.partition("?")[0].lower() if "://" in name else name.lower()
    fitting = [suffix for suffix in _FORMS if path.endswith(suffix)]
    return _FORMS[max(fitting, key=len)] if fitting else None


def _digest(name: str) -> Any:
    with open_file(name) as file:
        return hashlib.file_digest(cast("BufferedReader", file), "sha256")


def _named(file: InputFile, digest: Any) -> str:
    return f"{digest.hexdigest()} {file.name}"


def _combined(hashes: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


# ---------------------------------------------------------------------- lines


class _Chunk(NamedTuple):
    """Consecutive lines: the number of the first, from 1, that of those not blank, the bytes."""

    line: int
    rows: int
    size: int


def _chunks(lines: Iterable[bytes], rows: int, read: Callable[[bytes], object]) -> Iterator[_Chunk]:
    """Divide lines, each of which is passed on when it is read, into those of blocks.

    Only white space may be in none.
    """
    line, count, size = 1, 0, 0
    for number, text in enumerate(lines, 1):
        read(text)
        count += not is_blank(text)
        size += len(text)
        if count == rows or size >= BLOCK_BYTES:
            yield _Chunk(line, count, size)
            line, count, size = number + 1, 0, 0
    yield _Chunk(line, count, size)


def _objects(name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Check that lines look like JSON objects, without parsing them."""
    for number, raw in enumerate(lines, 1):
        text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        if not text.lstrip().startswith(b"{") and not is_blank(raw):
            raise FormatError(name, number, "must be a JSON object, which begins with {")
        yield raw


def _line_blocks(name: str, source: str, first: int, rows: int, digest: Any) -> Iterator[Block]:
    """The blocks of a file that is not compressed, from row ``first`` on; updates its hash."""
    start = 0
    with open_file(name) as file:
        for chunk in _chunks(_objects(name, file), rows, digest.update):
            stop = start + chunk.size
            if chunk.rows:
                yield Block(name, source, LINES, start, stop, chunk.line, first, chunk.rows)
            first, start = first + chunk.rows, stop


def _copied(
    folder: str, source: str, lines: Iterable[bytes], first: int, rows: int
) -> Iterator[Block]:
    """Copy lines to a folder, and yield their blocks. ``source`` is their name in messages."""
    ended = (raw if raw.endswith(b"\n") else raw + b"\n" for raw in lines)
    copy: list[bytes] = []
    for chunk in _chunks(ended, rows, copy.append):
        if chunk.rows:
            name = f"input-{first:012d}.jsonl"
            write_whole(folder, name, b"".join(copy))
            path = joined(folder, name)
            yield Block(path, source, LINES, 0, chunk.size, chunk.line, first, chunk.rows)
            first += chunk.rows
        copy.clear()


def _packed_lines(name: str) -> Iterator[bytes]:
    try:
        with open_file(name) as packed, gzip.GzipFile(fileobj=packed) as lines:
            yield from _objects(name, lines)
            if not packed.tell():
                raise EOFError
    except EOFError:
        raise FormatError(name, None, "is a gzip file that ends too early") from None
    except (gzip.BadGzipFile, zlib.error):
        raise FormatError(name, None, "is not a gzip file, or damaged") from None


def _run_lines(
    run: Path, queries: Mapping[str, str], corpus: Path, progress: Progress
) -> Iterator[bytes]:
    """The requests of a TREC run as lines of JSON."""

    def indexed(count: int) -> None:
        progress("Indexing the corpus", count, None)

    with open_input(run) as lines, CorpusFile(corpus, indexed) as documents:
        for request in read_run_requests(lines, run, queries, documents):
            try:
                yield request_line(request)
            except (TypeError, ValueError, RecursionError) as error:
                problem = f"query {request.query_id!r}: JSON cannot hold a document"
                raise FormatError(corpus, None, f"{problem} ({type(error).__name__})") from None


# ---------------------------------------------------------------------- Parquet


def _parquet_blocks(name: str, source: str, first: int, rows: int) -> Iterator[Block]:
    """Blocks of whole row groups; a block can have several small groups."""
    line, start, count = 1, 0, 0
    sizes = _row_groups(name)
    for group, size in enumerate([*sizes, 0]):
        if count and (count + size > rows or group == len(sizes)):
            yield Block(name, source, PARQUET, start, group, line, first, count)
            line, first, start, count = line + count, first + count, group, 0
        count += size


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

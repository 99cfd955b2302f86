"""Copies input that cannot be read from the middle: compressed lines, and TREC runs.

Copies are JSON lines in the job's folder, one file per block. They are written before anything is
ranked, and deleted when the job is done.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from secondpass.formats.shared import (
    CorpusFile,
    FormatError,
    open_input,
    read_run_requests,
    request_line,
)
from secondpass.types import Progress
from secondpass_ray.blocks import Block, is_blank
from secondpass_ray.scanning import BLOCK_BYTES, LINES, check_object
from secondpass_ray.storage import joined, open_file, write_whole

_NAME = re.compile(r"input-[0-9]{12,}\.jsonl")
"""Name of a copy."""


def is_copy(name: str) -> bool:
    """Whether this is the name of a copy in the folder of a job."""
    return _NAME.fullmatch(name) is not None


def packed_lines(name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a compressed file with their numbers, including blank ones."""
    try:
        with open_file(name) as packed, gzip.GzipFile(fileobj=packed) as lines:
            number = 0
            for number, raw in enumerate(lines, 1):
                if not is_blank(raw):
                    check_object(name, number, raw)
                yield number, raw
            if not number and not packed.tell():
                raise EOFError
    except EOFError:
        raise FormatError(name, None, "is a gzip file that ends too early") from None
    except (gzip.BadGzipFile, zlib.error):
        raise FormatError(name, None, "is not a gzip file, or damaged") from None


def run_lines(
    run: Path, queries: Mapping[str, str], corpus: Path, progress: Progress
) -> Iterator[tuple[int, bytes]]:
    """The requests of a TREC run as lines of JSON, numbered from 1."""

    def indexed(count: int) -> None:
        progress("Indexing the corpus", count, None)

    with open_input(run) as lines, CorpusFile(corpus, indexed) as documents:
        for number, request in enumerate(read_run_requests(lines, run, queries, documents), 1):
            try:
                yield number, request_line(request)
            except (TypeError, ValueError, RecursionError) as error:
                problem = f"query {request.query_id!r}: JSON cannot hold a document"
                raise FormatError(corpus, None, f"{problem} ({type(error).__name__})") from None


def staged(
    folder: str, source: str, lines: Iterable[tuple[int, bytes]], first: int, rows: int
) -> Iterator[Block]:
    """Copy numbered lines to a folder, and yield their blocks, of at most ``rows``.

    ``source`` is their name in messages, ``first`` the number of the first row.
    """
    collected: list[bytes] = []
    count = size = 0
    begin = 1

    def written() -> Block:
        name = f"input-{first:012d}.jsonl"
        write_whole(folder, name, b"".join(collected))
        return Block(joined(folder, name), source, LINES, 0, size, begin, first, count)

    for number, raw in lines:
        line = raw if raw.endswith(b"\n") else raw + b"\n"
        collected.append(line)
        size += len(line)
        count += not is_blank(line)
        if count == rows or size >= BLOCK_BYTES:
            if count:
                yield written()
            collected.clear()
            first, begin, count, size = first + count, number + 1, 0, 0
    if count:
        yield written()

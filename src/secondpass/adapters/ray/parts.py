"""Parts of the output: a file for each block, or for what of it was done.

``part-000000000000-000000000255.jsonl`` has the rows 0 to 255. Beside it, ``….BYTES.json`` has what
the summary counts; it is written before. Both are whole as soon as they have their names, so a part
that is there is done, whoever was killed. The size in the name keeps the counts with their part,
should a worker of a driver that was killed write the same rows at the same time.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from secondpass.adapters.ray.blocks import Block
from secondpass.adapters.ray.storage import NewFile, in_parallel, joined, open_file, write_whole
from secondpass.errors import InputError

_NAME = re.compile(r"part-([0-9]{12,})-([0-9]{12,})\.jsonl")
_COUNTS_NAME = re.compile(r"part-[0-9]{12,}-[0-9]{12,}\.[0-9]+\.json")
_MOST_READS = 64
"""Pieces that a block is divided into at most. For each, the block is read up to it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows ``first`` to ``last`` of the output."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Its file, in the folder of the job."""
        return f"part-{self.first:012d}-{self.last:012d}.jsonl"

    def counts_name(self, size: int) -> str:
        """The file with its counts, if the part has so many bytes."""
        return f"{self.name.removesuffix('.jsonl')}.{size}.json"

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Todo:
    """Rows of a block that are to be ranked."""

    block: Block
    part: Part


class PartWriter:
    """Writes a part that begins at a row; it exists from :meth:`finish` on.

    Args:
        folder: of the job.
        first: number of its first row.

    Attributes:
        rows: number of rows so far.
        counts: what the summary counts of them.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, folder: str, first: int) -> None:
        self.rows = 0
        self.counts: Counter[str] = Counter()
        self._folder, self._first, self._size = folder, first, 0
        self._new = NewFile(folder)

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        self._new.__exit__()

    def write(self, lines: Sequence[str], counts: Mapping[str, int]) -> None:
        """Add lines, each of one row."""
        data = "".join(lines).encode("utf-8", "backslashreplace")
        self._new.file.write(data)
        self._size += len(data)
        self.rows += len(lines)
        self.counts.update(counts)

    def finish(self) -> None:
        """Write the counts, then the part; nothing if it has no row.

        Raises:
            InputError, OSError: they cannot be written.
        """
        if not self.rows:
            return
        part = Part(self._first, self._first + self.rows - 1)
        record = json.dumps({"rows": self.rows, "counts": dict(self.counts)}).encode() + b"\n"
        write_whole(self._folder, part.counts_name(self._size), record)
        self._new.publish(part.name)


def is_of_part(name: str) -> bool:
    """Whether a file of this name is a part, or has the counts of one."""
    return any(pattern.fullmatch(name) for pattern in (_NAME, _COUNTS_NAME))


def parts_in(folder: str, files: Mapping[str, int]) -> tuple[list[Part], list[str]]:
    """The parts among the files of a folder, in order, and the names of those that are of no use.

    Of no use are a part whose rows are all in a larger one, and counts without a part.

    Raises:
        InputError: two parts have rows in common, and others.
    """
    found = [Part(int(it[1]), int(it[2])) for it in map(_NAME.fullmatch, files) if it]
    parts: list[Part] = []
    useless = []
    for part in sorted(found, key=lambda part: (part.first, -part.last)):
        if parts and part.last <= parts[-1].last:
            useless.append(part.name)
        else:
            parts.append(part)
    for before, part in pairwise(parts):
        if part.first <= before.last:
            problem = f"has {before.name} and {part.name}, which have rows in common"
            raise InputError(f"{folder}: {problem}; delete one of them and use --resume")
    counts = {part.counts_name(files[part.name]) for part in parts}
    useless += [name for name in files if _COUNTS_NAME.fullmatch(name) and name not in counts]
    return parts, useless


def count_parts(folder: str, parts: Sequence[Part], files: Mapping[str, int]) -> Counter[str]:
    """What the summary counts of parts. Files are read concurrently: stores take their time.

    Raises:
        InputError: a part has changed since it was written.
    """
    found = in_parallel(lambda part: read_counts(folder, part, files[part.name]), parts)
    return sum(found, Counter())


def read_counts(folder: str, part: Part, size: int) -> Counter[str]:
    """What the summary counts of a part of so many bytes.

    Raises:
        InputError: the part has changed since it was written.
    """
    try:
        with open_file(joined(folder, part.counts_name(size))) as file:
            record = json.load(file)
        counts = Counter({str(name): int(number) for name, number in record["counts"].items()})
        is_same = record["rows"] == part.rows
    except (OSError, InputError, ValueError, LookupError, TypeError, AttributeError):
        is_same, counts = False, Counter()
    if not is_same:
        problem = f"{part.name} was changed since it was written"
        raise InputError(f"{folder}: {problem}; delete it to rank its rows again")
    return counts


def missing(blocks: Iterable[Block], parts: Sequence[Part], rows: int) -> Iterator[Todo]:
    """The rows that no part has, in pieces of blocks.

    A block is divided at the same rows whenever it is, so that pieces of two runs are the same, or
    one of them is within the other.

    Args:
        blocks: in order.
        parts: in order, without rows in common.
        rows: of a piece, at most, unless the block would be read too often.
    """
    waiting = list(reversed(parts))
    for block in blocks:
        position, end = block.first, block.first + block.rows
        step = max(rows, math.ceil(block.rows / _MOST_READS))
        while position < end:
            while waiting and waiting[-1].last < position:
                waiting.pop()
            border = position + step - (position - block.first) % step
            stop = min(end, border, waiting[-1].first if waiting else end)
            if stop > position:
                yield Todo(block, Part(position, stop - 1))
            position = stop
            if waiting and waiting[-1].first <= position:
                position = max(position, waiting[-1].last + 1)

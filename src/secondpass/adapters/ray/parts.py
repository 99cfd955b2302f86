"""Parts of the output: a file for each block, or for what of it was done.

``part-000000000000-000000000255.jsonl`` has the rows 0 to 255. Beside it, ``….json`` has its size
and what the summary counts; it is written before. Both are whole as soon as they have their names,
so a part that is there is done, whoever was killed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from secondpass.adapters.ray.blocks import Block
from secondpass.adapters.ray.storage import NewFile, joined, open_file, write_whole
from secondpass.errors import InputError

_NAME = re.compile(r"part-([0-9]{12,})-([0-9]{12,})\.jsonl")


@dataclass(frozen=True, slots=True)
class Part:
    """Rows ``first`` to ``last`` of the output."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Its file, in the folder of the job."""
        return f"part-{self.first:012d}-{self.last:012d}.jsonl"

    @property
    def counts_name(self) -> str:
        """The file with its counts."""
        return self.name.removesuffix("l")

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
        record = {"rows": self.rows, "bytes": self._size, "counts": dict(self.counts)}
        write_whole(self._folder, part.counts_name, json.dumps(record).encode() + b"\n")
        self._new.publish(part.name)


def parts_in(folder: str, files: Mapping[str, int]) -> list[Part]:
    """The parts among the files of a folder, in order.

    Raises:
        InputError: two parts have the same rows.
    """
    parts = []
    for name in files:
        if match := _NAME.fullmatch(name):
            parts.append(Part(int(match[1]), int(match[2])))
    parts.sort(key=lambda part: (part.first, part.last))
    for before, part in pairwise(parts):
        if part.first <= before.last:
            problem = f"has {before.name} and {part.name}, which have rows in common"
            raise InputError(f"{folder}: {problem}; use --force to start again")
    return parts


def read_counts(folder: str, part: Part, size: int) -> Counter[str]:
    """What the summary counts of a part.

    Raises:
        InputError: the part has changed since it was written.
    """
    try:
        with open_file(joined(folder, part.counts_name)) as file:
            record = json.load(file)
        counts = Counter({str(name): int(number) for name, number in record["counts"].items()})
        is_same = record["bytes"] == size and record["rows"] == part.rows
    except (OSError, InputError, ValueError, LookupError, TypeError, AttributeError):
        is_same, counts = False, Counter()
    if not is_same:
        problem = f"{part.name} was changed since it was written"
        raise InputError(f"{folder}: {problem}; delete it to rank its rows again")
    return counts


def missing(blocks: Iterable[Block], parts: Sequence[Part]) -> Iterator[Todo]:
    """The rows that no part has, block by block.

    Args:
        blocks: in order.
        parts: in order, without rows in common.
    """
    waiting = list(reversed(parts))
    for block in blocks:
        position, end = block.first, block.first + block.rows
        while position < end:
            while waiting and waiting[-1].last < position:
                waiting.pop()
            stop = min(end, waiting[-1].first) if waiting else end
            if stop > position:
                yield Todo(block, Part(position, stop - 1))
            position = max(stop, min(end, waiting[-1].last + 1) if waiting else end)

"""Parts of the output: a file for each block, or for the rows of it that were ranked.

``part-000000000000-000000000255.jsonl`` has the rows 0 to 255. Beside it, ``….BYTES.json`` has the
counts for the summary; it is written first. Both get their names when they are complete, so an
existing part is done, whichever process was killed. The size in the name matches counts and part,
in case a worker of a killed driver writes the same rows at the same time.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from secondpass import InputError
from secondpass_ray.blocks import Block
from secondpass_ray.storage import NewFile, in_parallel, joined, open_file, write_whole

_NAME = re.compile(r"part-([0-9]{12,})-([0-9]{12,})\.jsonl")
_COUNTS_NAME = re.compile(r"part-[0-9]{12,}-[0-9]{12,}\.[0-9]+\.json")
_MOST_READS = 64
"""Maximum number of pieces of a block. For each, the block is read up to it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows ``first`` to ``last`` of the output."""

    first: int
    last: int

    @property
    def name(self) -> str:
        return f"part-{self.first:012d}-{self.last:012d}.jsonl"

    def counts_name(self, size: int) -> str:
        """Name of the file with the counts of a part of ``size`` bytes."""
        return f"{self.name.removesuffix('.jsonl')}.{size}.json"

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Todo:
    """The rows ``part`` of a block, which are to be ranked."""

    block: Block
    part: Part


class PartWriter:
    """Writes a part from row ``first`` on, which exists only after :meth:`finish`."""

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
        """Add lines, one per row."""
        data = "".join(lines).encode("utf-8", "backslashreplace")
        self._new.write(data)
        self._size += len(data)
        self.rows += len(lines)
        self.counts.update(counts)

    def finish(self) -> None:
        """Write the counts, then the part; nothing if there are no rows."""
        if not self.rows:
            return
        part = Part(self._first, self._first + self.rows - 1)
        record = json.dumps({"rows": self.rows, "counts": dict(self.counts)}).encode() + b"\n"
        write_whole(self._folder, part.counts_name(self._size), record)
        self._new.publish(part.name)


def is_of_part(name: str) -> bool:
    """Whether this is the name of a part, or of the counts of one."""
    return any(pattern.fullmatch(name) for pattern in (_NAME, _COUNTS_NAME))


def parts_in(folder: str, files: Mapping[str, int]) -> tuple[list[Part], list[str]]:
    """The parts among the files of a folder, in order, and the names of useless files.

    Useless are parts whose rows are all in a larger one, and counts without a part.
    """
    matches = filter(None, map(_NAME.fullmatch, files))
    candidates = [Part(int(match[1]), int(match[2])) for match in matches]
    parts: list[Part] = []
    useless = []
    for part in sorted(candidates, key=lambda part: (part.first, -part.last)):
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
    """The counts of parts for the summary; the sizes of the files show whether a part is as it was.

    Files are read concurrently, as object stores are slow.
    """

    def read_counts(part: Part) -> Counter[str]:
        try:
            with open_file(joined(folder, part.counts_name(files[part.name]))) as file:
                record = json.load(file)
            if record["rows"] != part.rows:
                raise ValueError
            return Counter({str(name): int(number) for name, number in record["counts"].items()})
        except (OSError, InputError, ValueError, LookupError, TypeError, AttributeError):
            problem = f"{part.name} was changed since it was written"
            message = f"{folder}: {problem}; delete it to rank its rows again"
            raise InputError(message) from None

    return sum(in_parallel(read_counts, parts), Counter())


def missing(blocks: Iterable[Block], parts: Sequence[Part], rows: int) -> Iterator[Todo]:
    """The rows that no part has, in pieces of blocks of at most this number of rows.

    A block is always divided at the same rows, so that pieces of two runs are equal, or one of them
    contains the other. Pieces are larger where a block would have too many.
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

"""Blocks, rows and parts of jobs."""

from __future__ import annotations

from collections.abc import Iterable

from secondpass_ray.blocks import Block, Row, read_rows
from secondpass_ray.parts import PartWriter


def nothing(*_arguments: object) -> None:
    """Progress that is ignored."""


def rows_of(blocks: Iterable[Block]) -> list[Row]:
    """The rows of blocks."""
    return [row for block in blocks for row in read_rows(block, block.first)]


def blocks_of(sizes: Iterable[int]) -> list[Block]:
    """Consecutive blocks of these numbers of rows."""
    first, found = 0, []
    for size in sizes:
        found.append(Block("f", "f", "lines", 0, 0, 1, first, size))
        first += size
    return found


def written(folder: object, first: int, rows: int) -> None:
    """Write a part."""
    with PartWriter(str(folder), first) as writer:
        writer.write([f'{{"row": {first + index}}}\n' for index in range(rows)], {"ok": rows})
        writer.finish()

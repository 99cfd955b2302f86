"""The option ``--monitor`` of the subcommands that rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

MonitorFolder = Annotated[
    Path | None,
    typer.Option(
        "--monitor",
        metavar="FOLDER",
        help="Add statistics of scores, moves and errors to this folder, for `secondpass drift`.",
    ),
]


@contextmanager
def monitored(folder: Path | None) -> Iterator[None]:
    """Monitor the rankings made in the block; without a folder, do nothing.

    Raises:
        InputError: the path is that of a file.
        OSError: the folder cannot be created.
    """
    if folder is None:
        yield
        return
    from secondpass.monitoring import Monitor

    with Monitor(folder):
        yield

"""The store of answers and of scores, and what describes one of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Readers: TypeAlias = Literal["owner", "group"]
"""Who may read a file: its owner alone, or its group, too."""


class StoreFileError(Exception):
    """The file cannot be used now. The message names it without its folder."""


@dataclass(frozen=True)
class Layout:
    """One kind of store. Its file has a table of keys and values.

    Columns of the table: ``key`` (BLOB, unique); ``used``, a whole number that orders the rows by
    their last use; ``checksum`` of key and value; ``value`` (BLOB); and, if the store is ``dated``,
    ``written``.
    """

    name: str  # of the kind, for messages
    application: int  # SQLite's `application_id`, which identifies the kind
    version: int  # of the schema, from 1
    schema: Sequence[str]  # statements that create the table
    table: str  # its name
    dated: bool  # whether the time of writing is kept, in seconds as of time.time()
    first_wins: bool = False
    """Whether a value that is stored stays until it is deleted; else the last one replaces it."""
    read_only: bool = False
    """Whether a file that cannot be written, as that of another user, is read; else it is an
    error."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the table."""
        return ("key", "used", "checksum", "value", *(["written"] if self.dated else []))

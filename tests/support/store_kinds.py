"""The two kinds of stores whose last value of a key stays."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b

from secondpass.asking.response_cache import LAYOUT as ANSWERS
from secondpass.scorers.embedding.passage_store import LAYOUT as STORED_PASSAGES
from secondpass.storage import Layout
from secondpass.storage.score_cache import LAYOUT as SCORES
from secondpass.storage.store_file import StoreFile

KEYS = [blake2b(str(number).encode(), digest_size=48).digest() for number in range(1200)]


@dataclass
class Kind:
    """A layout, its values by number, and a size at which half of ``KEYS`` have room."""

    layout: Layout
    value: Callable[[int], bytes]
    max_bytes: int

    def opened(self, path, max_bytes=10**9, max_age=None):
        return closing(StoreFile(path, self.layout, max_bytes, max_age))

    def values(self, start, end):
        return {KEYS[number]: self.value(number) for number in range(start, end)}

    def fill(self, path):
        """Write a file in which all keys have their value."""
        with self.opened(path) as file:
            file.put_many(self.values(0, len(KEYS)))

    def change(self, path, statement):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(statement.format(table=self.layout.table)).fetchall()

    def count(self, path):
        [(count,)] = self.change(path, "SELECT count(*) FROM {table}")
        return count


KINDS = {
    "answers": Kind(ANSWERS, lambda number: b"%d " % number + b"x" * 200, 200_000),
    "scores": Kind(SCORES, lambda number: number.to_bytes(8), 80_000),
}

PASSAGES = Kind(STORED_PASSAGES, lambda number: number.to_bytes(8) * 200, 2_000_000)
"""A store whose first value of a key stays."""

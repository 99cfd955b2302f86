"""Scores of pairs that were scored before, in memory or in a SQLite file.

For pointwise scorers, whose score of a pair depends on nothing else. A key includes everything that
a score depends on: the model's file, the engine, its settings, and the digests of both texts. No
text is stored.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from math import isfinite

from secondpass.errors import ConfigurationError
from secondpass.storage import Layout
from secondpass.storage.digests import text_digest
from secondpass.storage.lru import LRU
from secondpass.storage.store import Store
from secondpass.types import Issue

MAX_BYTES = 150_000_000
"""Size of a file of about a million pairs."""

LAYOUT = Layout(
    name="score cache",
    application=0x73706373,
    version=2,
    schema=(
        "CREATE TABLE pairs (key BLOB PRIMARY KEY, used INTEGER NOT NULL, "
        "checksum INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID",
        "CREATE INDEX pairs_by_use ON pairs (used)",
    ),
    table="pairs",
    dated=False,
)
_SCORE = struct.Struct("<d")


class ScoreCache:
    """A bounded map from pairs to scores, which drops the least recently used pairs.

    Args:
        place: number of pairs that are kept in memory, about 270 bytes each; or the path of a
            SQLite file, about 150 bytes a pair and at most 150 MB, which any number of processes
            may use.

    Scores are returned exactly as they were stored; only finite ones are. Safe for use from many
    threads, and after a fork. No method raises: a cache that fails has no scores.
    """

    def __init__(self, place: int | str | os.PathLike[str]) -> None:
        self._memory: LRU[bytes, float] = LRU(place if isinstance(place, int) else 0)
        self._file = None if isinstance(place, int) else _store(place)

    def get_many(self, keys: Sequence[bytes]) -> list[float | None]:
        """The score of each pair, or None; keys as of :func:`pair_keys`."""
        if self._file is None:
            return self._memory.get_many(keys)
        found, unpack = self._file.get_many(keys), _SCORE.unpack
        return [unpack(found[key])[0] if key in found else None for key in keys]

    def put_many(self, pairs: Iterable[tuple[bytes, float]]) -> None:
        """Keep scores. A pair that is known may keep its score, or get the new one."""
        finite = {key: float(score) for key, score in pairs if isfinite(score)}
        if self._file is None:
            self._memory.put_many(finite.items())
        else:
            self._file.put_many({key: _SCORE.pack(score) for key, score in finite.items()})

    def issues(self) -> list[Issue]:
        """What is wrong with the file, for a report."""
        return [] if self._file is None else self._file.issues()

    def close(self) -> None:
        """Release memory and files; a later call opens them again."""
        self._memory.clear()
        if self._file is not None:
            self._file.close()


def _store(path: str | os.PathLike[str]) -> Store:
    return Store(path, LAYOUT, MAX_BYTES)


def check_cache(place: int | str | None) -> None:
    """Check that the path of a score cache can be one; what is there is seen when it is used."""
    if isinstance(place, str) and "\0" in place:
        raise ConfigurationError("score_cache: the path must be that of a file")


def pair_keys(
    namespace: bytes, query: str, passages: Iterable[str], instruction: str | None = None
) -> list[bytes]:
    """The keys of a query with each passage, 48 bytes.

    A key starts with the namespace and the query, so that a file has the pairs of one query
    together.
    """
    if instruction is not None:
        namespace = text_digest(f"{namespace.hex()} {instruction}")
    start = namespace + text_digest(query)
    return [start + text_digest(text) for text in passages]

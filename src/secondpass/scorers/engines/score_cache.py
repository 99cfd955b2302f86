"""Scores of pairs that were scored before, in memory or in a SQLite file.

For pointwise scorers, whose score of a pair depends on nothing else. A key includes everything that
a score depends on: the model's file, the engine, its settings, and the digests of both texts. No
text is stored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol

from secondpass.errors import ConfigurationError
from secondpass.questions import written_spans
from secondpass.scorers.engines.lru import LRU
from secondpass.storage import Layout
from secondpass.storage.store import Store
from secondpass.types import Issue

DIGEST_SIZE = 16
"""Bytes of a digest. Two texts have the same one with a probability of 1e-38."""

MAX_BYTES = 150_000_000
"""Size of a file of about a million pairs."""

LAYOUT = Layout(
    name="score cache",
    application=0x73706373,
    version=1,
    schema=(
        # A column of no type: REAL would turn -0.0 into 0.0.
        "CREATE TABLE pairs (key BLOB PRIMARY KEY, score, used INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX pairs_by_use ON pairs (used)",
        # Not used, but part of version 1.
        "CREATE TABLE state (pairs INTEGER NOT NULL)",
        "INSERT INTO state VALUES (0)",
    ),
    table="pairs",
    columns="key, used, score",
    dated=False,
    are_valid=lambda scores: set(map(type, scores)) <= {float} and all(map(isfinite, scores)),
)


class ScoreCache(Protocol):
    """A bounded map from pairs to scores, which drops the least recently used pairs.

    Scores are returned exactly as they were stored; only finite ones are. Safe for use from many
    threads, and after a fork. No method raises: a cache that fails has no scores.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[float | None]:
        """The score of each pair, or None; keys as of :func:`pair_key`."""

    def put_many(self, pairs: Iterable[tuple[bytes, float]]) -> None:
        """Keep scores. A pair that is known may keep its score, or get the new one."""

    def issues(self) -> list[Issue]:
        """What is wrong with the cache, for a report."""

    def close(self) -> None:
        """Release memory and files; a later call opens them again."""


class MemoryScores:
    """A :class:`ScoreCache` in memory: about 270 bytes a pair.

    Args:
        capacity: number of pairs.
    """

    def __init__(self, capacity: int) -> None:
        self._scores: LRU[bytes, float] = LRU(capacity)

    def get_many(self, keys: Sequence[bytes]) -> list[float | None]:
        """The score of each pair, or None."""
        return self._scores.get_many(keys)

    def put_many(self, pairs: Iterable[tuple[bytes, float]]) -> None:
        """Keep finite scores."""
        self._scores.put_many((key, score) for key, score in pairs if isfinite(score))

    def issues(self) -> list[Issue]:
        """None."""
        return []

    def close(self) -> None:
        """Forget all scores."""
        self._scores.clear()


class StoredScores:
    """A :class:`ScoreCache` in a SQLite file: about 150 bytes a pair.

    Args:
        path: of the file; created if it does not exist, readable by its owner only.
        max_bytes: maximum size of the file.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> None:
        self._store: Store[float] = Store(path, LAYOUT, max_bytes)

    def get_many(self, keys: Sequence[bytes]) -> list[float | None]:
        """The score of each pair, or None."""
        scores = self._store.get_many(keys)
        return [scores.get(key) for key in keys]

    def put_many(self, pairs: Iterable[tuple[bytes, float]]) -> None:
        """Keep finite scores."""
        self._store.put_many({key: float(score) for key, score in pairs if isfinite(score)})

    def issues(self) -> list[Issue]:
        """What is wrong with the file, for a report."""
        return self._store.issues()

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        self._store.close()


def open_cache(value: int | str | os.PathLike[str]) -> ScoreCache:
    """A score cache.

    Args:
        value: number of pairs, at least 1, that are kept in memory; or the path of a SQLite file,
            which is created if it does not exist and keeps 150 MB, about a million pairs. Any
            number of processes may use one file. If it cannot be used, the cache has no scores, and
            its issues say why.

    Raises:
        ConfigurationError: the value is neither.
    """
    if isinstance(value, bool) or not isinstance(value, int | str | os.PathLike):
        raise ConfigurationError("score cache: must be a number of pairs or the path of a file")
    if isinstance(value, int):
        if value < 1:
            raise ConfigurationError(f"score cache: must be 1 pair or more, not {value}")
        return MemoryScores(value)
    if not str(value) or "\0" in str(value):
        raise ConfigurationError("score cache: the path must be that of a file")
    return StoredScores(value)


def check_cache(value: int | str | None) -> None:
    """Check that the path of a score cache is not that of something else.

    Raises:
        ConfigurationError: it is.
    """
    if isinstance(value, str):
        Store(value, LAYOUT, MAX_BYTES).check("score_cache")


def text_digest(text: str) -> bytes:
    """A digest of 16 bytes of any text, lone surrogates included."""
    return hashlib.blake2b(_bytes(text), digest_size=DIGEST_SIZE).digest()


def _bytes(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    written = written_spans(text)
    return b"%b\xff%b" % (data, repr(written).encode()) if written else data


def namespace(settings: Mapping[str, Any]) -> bytes:
    """A digest of 16 bytes of everything but the texts that a score depends on, as JSON values."""
    return text_digest(json.dumps(settings, sort_keys=True))


def with_instruction(namespace: bytes, instruction: str) -> bytes:
    """The digest of 16 bytes of a namespace and the instruction of a call."""
    return text_digest(f"{namespace.hex()} {instruction}")


def pair_key(namespace: bytes, query_digest: bytes, passage_digest: bytes) -> bytes:
    """The key of a pair, 48 bytes.

    It starts with the namespace and the query, so that a file has the pairs of one query together.
    """
    return namespace + query_digest + passage_digest


def pair_keys(namespace: bytes, query: str, passages: Iterable[str]) -> list[bytes]:
    """The keys of a query with each passage, as :func:`pair_key`."""
    start = namespace + text_digest(query)
    digest = hashlib.blake2b
    return [start + digest(_bytes(text), digest_size=DIGEST_SIZE).digest() for text in passages]


def file_digest(path: str | os.PathLike[str]) -> str:
    """The digest of a file's bytes as 32 hexadecimal digits.

    It is computed again only if path, size, time of the last change or inode differ.
    """
    resolved = os.path.realpath(path)
    with open(resolved, "rb") as file:
        status = os.fstat(file.fileno())
        key = (resolved, status.st_size, status.st_mtime_ns, status.st_ino)
        [known] = _file_digests.get_many([key])
        if known is None:
            known = hashlib.file_digest(file, _blake2b).hexdigest()
            _file_digests.put_many([(key, known)])
    return known


def _blake2b() -> Any:
    return hashlib.blake2b(digest_size=DIGEST_SIZE)


_file_digests: LRU[tuple[str, int, int, int], str] = LRU(64)

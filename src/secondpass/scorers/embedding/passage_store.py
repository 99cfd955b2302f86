"""Encoded passages that are kept: in memory, and in a SQLite file of any number of processes.

A passage is found by a digest of everything that its record depends on: weights, tokenizer, number
of tokens, packing and text. No text is stored; docs/security.md says what vectors give away.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.concurrency.locks import fork_lock
from secondpass.errors import ConfigurationError, StoreError
from secondpass.scorers.embedding.packing import Record, unpack
from secondpass.settings import Nested, configurable, describe, from_mapping, model_of
from secondpass.storage import Layout, Readers
from secondpass.storage.digests import namespace, text_digest
from secondpass.storage.store import Store
from secondpass.types import Issue

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

LAYOUT = Layout(
    name="passage store",
    application=0x73707073,
    version=2,
    schema=(
        "CREATE TABLE passages (key BLOB PRIMARY KEY, used INTEGER NOT NULL, "
        "checksum INTEGER NOT NULL, value BLOB NOT NULL)",
        "CREATE INDEX passages_by_use ON passages (used)",
    ),
    table="passages",
    dated=False,
    first_wins=True,
    read_only=True,
)

_MAX_WAITING = 2_000
"""Records that wait to be written: up to 100 MB for the longest passages, 16 MB for usual ones."""


@configurable
class PassageStore:
    """Keeps encoded passages in a SQLite file, so that each is encoded once.

    Any number of threads and processes may use one file. If it cannot be used, the report has an
    issue, and passages are encoded.

    Args:
        path: of the file; created if it does not exist. An existing file is used only if it is
            empty, or a passage store.
        max_mb: maximum size of the file in 1e6 bytes; the least recently used passages are deleted.
            A passage of 74 tokens takes about 8.5 KB.
        readers: who can read the file: its ``owner`` alone, or its ``group``, too. A file that
            cannot be written is read.
    """

    def __init__(
        self,
        path: Annotated[str, MinLen(1)],
        *,
        max_mb: Annotated[int, Ge(1)] = 4096,
        readers: Readers = "owner",
    ) -> None:
        self.path = path
        self._absolute = os.path.abspath(path)  # the working directory may change
        self.max_mb = max_mb
        self.readers = readers

    def open(self) -> Store:
        """The file, which is opened at its first use."""
        return Store(
            self._absolute,
            LAYOUT,
            self.max_mb * 1_000_000,
            max_waiting=_MAX_WAITING,
            readers=self.readers,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PassageStore) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    @property
    def _settings(self) -> tuple[str, int, str]:
        return self._absolute, self.max_mb, self.readers


def to_passage_store(value: object) -> PassageStore | None:
    """The store of a path or a mapping, or itself; else a ConfigurationError."""
    if value is None or isinstance(value, PassageStore):
        return value
    if isinstance(value, str | os.PathLike):
        value = {"path": os.fspath(value)}
    if isinstance(value, Mapping):
        store: PassageStore = from_mapping(PassageStore, value)
        return store
    raise ConfigurationError(f"give a path, a mapping or a PassageStore, not {describe(value)}")


def _schema() -> dict[str, Any]:
    path = {"type": "string", "minLength": 1}
    return {"anyOf": [path, model_of(PassageStore).model_json_schema(), {"type": "null"}]}


PASSAGE_STORE = Nested(to_passage_store, _schema)


class KnownPassages:
    """The records of passages, by text. Safe for use from many threads, and after a fork.

    Args:
        settings: everything but the text that a record depends on, as JSON values.
        memory_bytes: size of the records that are kept in memory, the last used ones.
        store: the file; None for memory alone.
    """

    def __init__(
        self, settings: Mapping[str, Any], memory_bytes: int, store: PassageStore | None
    ) -> None:
        self._namespace = namespace(settings)
        self._memory = _Memory(memory_bytes)
        self._file = None if store is None else store.open()

    def get_many(self, texts: Sequence[str]) -> list[Record | None]:
        """The record of each text, or None."""
        keys = self._keys(texts)
        found = self._memory.get_many(keys)
        missing = [key for key, data in zip(keys, found, strict=True) if data is None]
        if missing and self._file is not None:
            stored = self._file.get_many(missing)
            self._memory.put_many(stored)
            found = [stored.get(key, data) for key, data in zip(keys, found, strict=True)]
        return [None if data is None else unpack(data) for data in found]

    def put_many(self, records: Mapping[str, bytes]) -> dict[str, bytes]:
        """Keep the records of texts; the first one of a text stays.

        The file is written in the background.

        Returns:
            The record of each text that is in use: another thread may have been the first.
        """
        keys = self._keys(records)
        kept = self._memory.put_many(dict(zip(keys, records.values(), strict=True)))
        if self._file is not None:
            self._file.write_soon(kept)
        return dict(zip(records, kept.values(), strict=True))

    def check_room(self, size: int) -> None:
        """Raise a StoreError if the file would have to delete records for new ones of this size."""
        assert self._file is not None
        free = self._file.free_bytes()
        self._raise_failure()
        if free < size:
            raise StoreError("the store is full: raise its 'max_mb', or use another file")

    def flush(self) -> None:
        """Write all records to the file, in this thread.

        Raises:
            StoreError: they could not be written.
        """
        assert self._file is not None
        self._file.flush()
        self._raise_failure()

    def forget(self, texts: Sequence[str]) -> None:
        """Delete the records of texts, and overwrite them in the file.

        Raises:
            StoreError: the file cannot be written.
        """
        self._delete(self._keys(texts))
        self._raise_failure()
        if self._file is not None:
            self._file.close()  # which empties SQLite's log

    def _raise_failure(self) -> None:
        if issues := self.issues():
            raise StoreError(issues[0].message)

    def contents(self) -> dict[str, Any] | None:
        """What the file holds; None without a file, and if it cannot be used."""
        return None if self._file is None else self._file.contents()

    def issues(self) -> list[Issue]:
        """What is wrong with the file, for a report."""
        return [] if self._file is None else self._file.issues()

    def close(self) -> None:
        """Write and close the file; a later call opens it again."""
        if self._file is not None:
            self._file.close()

    def _keys(self, texts: Iterable[str]) -> list[bytes]:
        return [self._namespace + text_digest(text) for text in texts]

    def _delete(self, keys: Sequence[bytes]) -> None:
        self._memory.remove_many(keys)
        if self._file is not None:
            self._file.write_soon(dict.fromkeys(keys))  # in place of records not yet written
            self._file.flush()


class _Memory:
    """The last used records, up to a number of bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._records: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0  # an interrupt may leave it off by one record
        self._lock = fork_lock()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The record of each key, or None."""
        found: list[bytes | None] = []
        with self._lock:
            for key in keys:
                record = self._records.get(key)
                if record is not None:
                    self._records.move_to_end(key)
                found.append(record)
        return found

    def put_many(self, records: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Keep records; one that is known stays. Returns those that are now in use."""
        kept = {}
        with self._lock:
            for key, record in records.items():
                kept[key] = self._records.setdefault(key, record)
                if kept[key] is record:
                    self._size += len(record)
            while self._size > self._capacity and self._records:
                _, dropped = self._records.popitem(last=False)
                self._size -= len(dropped)
        return kept

    def remove_many(self, keys: Iterable[bytes]) -> None:
        with self._lock:
            for key in keys:
                record = self._records.pop(key, None)
                if record is not None:
                    self._size -= len(record)

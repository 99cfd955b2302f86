"""A file that is written part by part, and can be gone on with after whatever stopped it.

Beside ``out.jsonl`` stands ``out.jsonl.state``, a small file of JSON: of what the output is made,
how many requests are done, how many bytes that came to, and hashes of the requests and of these
bytes. It is moved into its place after what it tells of is on disk, so what stands in the output
beyond it is the rest of a part that was not finished, and is cut off.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from secondpass.errors import InputError
from secondpass.formats.files import atomic_write, flush_file, lock

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_NOTHING = hashlib.sha256().hexdigest()
_PART = 1 << 20
"""Bytes that are read at a time."""


class Resumable:
    """The output file and its state. Nothing is changed before the first request is noted.

    Args:
        path: of the output; an empty file counts as none.
        made_of: what its content depends on, apart from the requests: names for people, and values.
        resume: go on with what is there, if it is of the same.
        force: begin anew, whatever is there.

    Attributes:
        done: requests whose answers were there before.
        counts: what was counted about them.

    Raises:
        InputError: there is an output already, it is of something else, or of another process.
        OSError: it cannot be read or written.
    """

    def __init__(
        self, path: Path, made_of: Mapping[str, Any], *, resume: bool, force: bool
    ) -> None:
        self.path = path
        self.made_of = {name: _hash(value) for name, value in made_of.items()}
        self.done = 0
        self.counts: Counter[str] = Counter()
        self._expected = self._chain = _NOTHING
        self._read = 0
        self._written = hashlib.sha256()
        self._begun = False
        self._file: BinaryIO | None = None
        if path.exists():
            self._file = _locked(path, new=False)
            try:
                if path.stat().st_size and not force:
                    self._recall(self._file, resume=resume)
            except BaseException:
                self._file.close()
                raise

    @property
    def state(self) -> Path:
        """Where the state is."""
        return state_of(self.path)

    def __enter__(self) -> Resumable:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # of a part that could not be written, and was told
                self._file.close()

    def new(self, digests: Iterable[bytes]) -> int:
        """Take note of the next requests; how many of them, from the front, are done already.

        Raises:
            InputError: those that are done were others.
        """
        self._begin()
        count = 0
        for digest in digests:
            self._chain = hashlib.sha256(bytes.fromhex(self._chain) + digest).hexdigest()
            self._read += 1
            count += self._read <= self.done
            if self._read == self.done and self._chain != self._expected:
                told = f"the first {self.done} requests are not those that it was made of"
                raise InputError(f"{self.path}: {told}; --force begins anew")
        return count

    def write(self, text: str, counts: Mapping[str, int]) -> None:
        """Add the answers to the requests noted so far, and make sure that they stay."""
        file, answers = self._begin(), text.encode("utf-8", "backslashreplace")
        try:
            file.write(answers)
            flush_file(file)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self._written.update(answers)
        self.counts.update(counts)
        self._save(file)

    def finish(self) -> None:
        """All requests were read.

        Raises:
            InputError: there are fewer than are done.
        """
        self._begin()
        if self._read < self.done:
            told = f"has answers to {self.done} requests, and the input only {self._read}"
            raise InputError(f"{self.path}: {told}; --force begins anew")

    def _begin(self) -> BinaryIO:
        """The output, cut to what is done, with a state beside it."""
        if self._file is None:
            self._file = _locked(self.path, new=True)
        if not self._begun:
            self._begun = True
            self._file.truncate()
            if not self.done:
                self._save(self._file)
        return self._file

    def _save(self, file: BinaryIO) -> None:
        told = {
            "made_of": self.made_of,
            "requests": max(self._read, self.done),
            "bytes": file.tell(),
            "sha256": self._chain,
            "written": self._written.hexdigest(),
            "counts": dict(self.counts),
        }
        # Of one name, so that what a killed process left is written over.
        draft = self.state.with_name(f".{self.state.name}.tmp")
        with atomic_write(self.state, draft) as state:
            state.write(f"{json.dumps(told, indent=1)}\n".encode())

    def _recall(self, file: BinaryIO, *, resume: bool) -> None:
        """Take up what the state tells, and leave the file at the end of what is finished."""
        if not resume:
            why = "is there already; --force begins anew, --resume goes on with it"
            raise InputError(f"{self.path}: {why}")
        try:
            told = json.loads(self.state.read_text(encoding="utf-8"))
            made_of, done, size = dict(told["made_of"]), int(told["requests"]), int(told["bytes"])
            self._expected, written = str(told["sha256"]), str(told["written"])
            self.counts.update({str(name): int(count) for name, count in told["counts"].items()})
        except FileNotFoundError:
            why = f"there is no {self.state.name} beside it that tells how it was made"
            raise InputError(f"{self.path}: {why}; --force begins anew") from None
        except _UNREADABLE:
            why = "cannot be read as what tells how the output was made"
            raise InputError(f"{self.state}: {why}; --force begins anew") from None
        if other := [name for name in self.made_of if made_of.get(name) != self.made_of[name]]:
            told_of = f"was made with another {' and another '.join(other)}"
            raise InputError(f"{self.path}: {told_of}; --force begins anew")
        while size > 0 and (part := file.read(min(size, _PART))):
            self._written.update(part)
            size -= len(part)
        if size or done < 0 or self._written.hexdigest() != written:
            raise InputError(f"{self.path}: is not as it was left; --force begins anew")
        self.done = done


def state_of(path: Path) -> Path:
    """The state file of an output."""
    return path.with_name(f"{path.name}.state")


def _locked(path: Path, *, new: bool) -> BinaryIO:
    """A file that no other process writes; a killed one holds no lock."""
    file: BinaryIO = open(path, "xb" if new else "r+b")  # noqa: SIM115 - closed with its owner
    if sys.platform != "win32":  # a locked file could not be read there
        try:
            lock(file)
        except BlockingIOError:
            file.close()
            raise InputError(f"{path}: another process is writing to it") from None
        except OSError:
            pass  # the file system has no locks
    return file


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()

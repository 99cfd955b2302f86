"""An output file that can be resumed after a crash.

Beside ``out.jsonl`` there is ``out.jsonl.state``, a JSON file with hashes of the settings, the
number of requests that are done, the size of their output, and hashes of these requests and of this
output. It is replaced after the output is on disk. Output beyond that size is incomplete and is cut
off. Until the output is complete, ``out.jsonl.answers.sqlite`` is the response cache of requests
that are not done.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from secondpass.asking.response_cache import ResponseCache
from secondpass.errors import InputError
from secondpass.formats.files import (
    atomic_write,
    compressed,
    flush_file,
    is_gzip,
    naming,
    open_locked,
)
from secondpass.reranker import Reranker

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_EMPTY = hashlib.sha256().hexdigest()
_BLOCK = 1 << 20
"""Bytes to read at a time."""


class Resumable:
    """The output file and its state. Neither is changed before the first :meth:`count_done`.

    An empty file counts as none. ``made_of`` is what the output depends on besides the requests, by
    its name in messages. ``done`` is the number of requests whose output existed before, and
    ``counts`` the sums of what :meth:`write` was called with, including those before.
    """

    def __init__(
        self, path: Path, made_of: Mapping[str, Any], *, resume: bool, force: bool
    ) -> None:
        self.path = path
        self.state = state_of(path)
        self.made_of = {name: _hash(value) for name, value in made_of.items()}
        self.done = 0
        self.counts: Counter[str] = Counter()
        self._expected = self._chain = _EMPTY
        self._read = 0
        self._written = hashlib.sha256()
        self._started = False
        self._file: BinaryIO | None = None
        if path.exists():
            self._file = open_locked(path, "r+b")
            try:
                if path.stat().st_size and not force:
                    self._load(self._file, resume=resume)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Resumable:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # a failed write raises again here, and was reported
                self._file.close()

    def count_done(self, digests: Iterable[bytes]) -> int:
        """Number of the next requests, from the first on, that are done already."""
        self._start()
        count = 0
        for digest in digests:
            self._chain = hashlib.sha256(bytes.fromhex(self._chain) + digest).hexdigest()
            self._read += 1
            if self._read <= self.done:
                count += 1
            if self._read == self.done and self._chain != self._expected:
                raise self._refused(f"its first {self.done} requests were different")
        return count

    def write(self, text: str, counts: Mapping[str, int]) -> None:
        """Append the output of the requests counted so far, flush it, and save the state."""
        file, data = self._start(), text.encode("utf-8", "backslashreplace")
        # A gzip member per batch, so that the file can be cut and continued between batches.
        data = compressed(data) if is_gzip(self.path) else data
        with naming(self.path):
            file.write(data)
            flush_file(file)
        self._written.update(data)
        self.counts.update(counts)
        self._save(file)

    def finish(self) -> None:
        """Check that no request is missing at the end of the input."""
        self._start()
        if self._read < self.done:
            problem = f"has {self.done} requests, but the input has only {self._read}"
            raise self._refused(problem)
        if not self._read and is_gzip(self.path):
            self.write("", {})  # an empty file is not a valid gzip file

    def _refused(self, problem: str) -> InputError:
        return InputError(f"{self.path}: {problem}; use --force to overwrite it")

    def _start(self) -> BinaryIO:
        """Open the output, cut it to what is done, and write the first state."""
        if self._file is None:
            self._file = open_locked(self.path, "xb")
        if not self._started:
            self._started = True
            self._file.truncate()
            if not self.done:
                self._save(self._file)
        return self._file

    def _save(self, file: BinaryIO) -> None:
        state = {
            "made_of": self.made_of,
            "requests": max(self._read, self.done),
            "bytes": file.tell(),
            "sha256": self._chain,
            "written": self._written.hexdigest(),
            "counts": dict(self.counts),
        }
        # A fixed name, so that the file of a killed process is overwritten.
        temporary = self.state.with_name(f".{self.state.name}.tmp")
        with atomic_write(self.state, temporary) as state_file:
            state_file.write(f"{json.dumps(state, indent=1)}\n".encode())

    def _load(self, file: BinaryIO, *, resume: bool) -> None:
        """Load the state, verify the output, and seek to the end of what is done."""
        if not resume:
            hint = "use --force to overwrite it, or --resume to continue it"
            raise InputError(f"{self.path}: already exists; {hint}")
        try:
            state = json.loads(self.state.read_text(encoding="utf-8"))
            made_of = dict(state["made_of"])
            done, size = int(state["requests"]), int(state["bytes"])
            self._expected, written = str(state["sha256"]), str(state["written"])
            self.counts.update({str(name): int(count) for name, count in state["counts"].items()})
        except FileNotFoundError:
            problem = f"cannot be resumed without its state file, {self.state.name}"
            raise self._refused(problem) from None
        except _UNREADABLE:
            problem = "is not a valid state file"
            raise InputError(f"{self.state}: {problem}; use --force to start again") from None
        if other := [name for name in self.made_of if made_of.get(name) != self.made_of[name]]:
            raise self._refused(f"was made with another {' and another '.join(other)}")
        while size > 0 and (block := file.read(min(size, _BLOCK))):
            self._written.update(block)
            size -= len(block)
        if size or done < 0 or self._written.hexdigest() != written:
            raise self._refused("was changed since it was written")
        self.done = done
        if not done:  # the empty gzip member of an input without requests
            file.seek(0)
            self._written = hashlib.sha256()


@contextmanager
def storing_answers(path: Path, reranker: Reranker, *, resume: bool) -> Iterator[Reranker]:
    """A reranker that stores the answers of services beside an output, until it is complete.

    A configured response cache is used instead of this file. Answers of an interrupted run are used
    with ``resume``.
    """
    if reranker.cache is not None:
        yield reranker
        return
    answers = ResponseCache.of_run(answers_of(path))
    if not resume and answers_of(path).exists():  # else an error would name it, not the output
        answers.delete()
    with reranker.storing_answers(answers) as storing:
        yield storing
    answers.delete()


def state_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.state")


def requests_done(path: Path) -> int | None:
    """Number of requests whose output is in a file, by its state; None without a valid state."""
    try:
        return int(json.loads(state_of(path).read_text(encoding="utf-8"))["requests"])
    except (OSError, *_UNREADABLE):
        return None


def answers_of(path: Path) -> Path:
    """Path of the stored answers of an output that is not complete."""
    return path.with_name(f"{path.name}.answers.sqlite")


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()

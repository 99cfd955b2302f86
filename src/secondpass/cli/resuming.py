"""A file that is written part by part, and can be gone on with after whatever stopped it.

Beside ``out.jsonl`` stands ``out.jsonl.state``, a small file of JSON: of what the output is made,
how many requests are done, how many bytes that came to, and a hash of the requests. It is moved
into its place after what it tells of is on disk, so what stands in the output beyond it is the rest
of a part that was not finished, and is cut off.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from secondpass.errors import InputError
from secondpass.evaluation.lines import write_lines

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_NOTHING = hashlib.sha256().hexdigest()


class Resumable:
    """The output file and its state.

    Args:
        path: of the output.
        made_of: what its content depends on, apart from the requests: names for people, and values.
        resume: go on with what is there, if it is of the same.
        force: begin anew, whatever is there.

    Attributes:
        done: requests whose answers were there before.
        counts: what was counted about them.

    Raises:
        InputError: there is an output already, or it is of something else.
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
        size: int | None = None
        if path.exists() and not force:
            if not resume:
                told = f"{path}: is there already; --force begins anew, --resume goes on with it"
                raise InputError(told)
            size = self._recall()
        self._file = open(path, "wb" if size is None else "r+b")  # noqa: SIM115 - closed with this
        if size is None:
            self._save()
        else:
            self._file.truncate(size)
            self._file.seek(size)

    @property
    def state(self) -> Path:
        """Where the state is."""
        return state_of(self.path)

    def __enter__(self) -> Resumable:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def new(self, digests: Iterable[bytes]) -> int:
        """Take note of the next requests; how many of them, from the front, are done already.

        Raises:
            InputError: those that are done were others.
        """
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
        self._file.write(text.encode("utf-8", "backslashreplace"))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.counts.update(counts)
        self._save()

    def finish(self) -> None:
        """All requests were read.

        Raises:
            InputError: there are fewer than are done.
        """
        if self._read < self.done:
            told = f"has answers to {self.done} requests, and the input only {self._read}"
            raise InputError(f"{self.path}: {told}; --force begins anew")

    def _save(self) -> None:
        told = {
            "made_of": self.made_of,
            "requests": max(self._read, self.done),
            "bytes": self._file.tell(),
            "sha256": self._chain,
            "counts": dict(self.counts),
        }
        write_lines(self.state, [json.dumps(told, indent=1) + "\n"])

    def _recall(self) -> int:
        """Take up what the state tells; the size of what is finished."""
        try:
            told = json.loads(self.state.read_text(encoding="utf-8"))
            made_of, done, size = dict(told["made_of"]), int(told["requests"]), int(told["bytes"])
            self._expected = str(told["sha256"])
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
        if not 0 <= size <= self.path.stat().st_size or done < 0:
            raise InputError(f"{self.path}: is shorter than it was; --force begins anew")
        self.done = done
        return size


def state_of(path: Path) -> Path:
    """The state file of an output."""
    return path.with_name(f"{path.name}.state")


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()

"""The folder of a job: what it was made of, its blocks, and the parts that are done.

``job.json`` is written when the input has been read, before anything is ranked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import Any

from secondpass.adapters.ray.blocks import Block
from secondpass.adapters.ray.coordination import SPENT, Amounts, amounts_of
from secondpass.adapters.ray.parts import Part, count_parts, is_of_part, parts_in
from secondpass.adapters.ray.staging import is_copy
from secondpass.adapters.ray.storage import (
    delete,
    files_in,
    in_parallel,
    is_temporary,
    is_uri,
    joined,
    kind_of,
    make_folder,
    open_file,
    write_whole,
)
from secondpass.errors import InputError
from secondpass.formats.files import open_locked

STATE = "job.json"
_LOCK = ".job.lock"
_FORMAT = 1
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class JobFolder:
    """The output folder. One process at a time works in one of this machine.

    Args:
        name: path, or URI.

    Raises:
        InputError: the name is a file's, or another process works in the folder.
        OSError: the folder cannot be made.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._stack = ExitStack()

    def __enter__(self) -> JobFolder:
        if kind_of(self.name) == "file":
            raise InputError(f"{self.name}: is a file; name a folder")
        make_folder(self.name)
        if not is_uri(self.name):
            self._stack.enter_context(open_locked(Path(self.name) / _LOCK, "a+b"))
        return self

    def __exit__(self, *_error: object) -> None:
        # Deleted while it is locked: afterwards it may be another process that has locked it.
        if not is_uri(self.name):
            (Path(self.name) / _LOCK).unlink(missing_ok=True)
        self._stack.close()

    def state(self, *, resume: bool, force: bool) -> dict[str, Any] | None:
        """What ``job.json`` has; None of a new job.

        Args:
            resume: whether a job that is there is to be continued.
            force: whether its files are to be deleted.

        Raises:
            InputError: there is one and neither is set, or the folder has something else.
        """
        files = self._files()
        if force:
            # The state first: parts without it are never taken for those of another job.
            self._delete([STATE])
            self._delete(name for name in files if _is_ours(name))
            files = self._files()
        if STATE not in files:
            # Of a job that ended while it read:
            self._delete(name for name in files if is_temporary(name) or is_copy(name))
            files = self._files()
            if files:
                hint = f"it has no {STATE}, but {next(iter(files))}"
                raise InputError(f"{self.name}: is not the folder of a job: {hint}; name another")
            return None
        if not resume:
            hint = "use --resume to continue it, or --force to start again"
            raise InputError(f"{self.name}: already has a job; {hint}")
        try:
            with open_file(joined(self.name, STATE)) as file:
                state = json.load(file)
            if state["format"] != _FORMAT:
                raise ValueError
            dict(state["made_of"])
            state["piece"] = int(state["piece"])
            state["blocks"] = [Block(*values) for values in state["blocks"]]
        except _UNREADABLE:
            problem = "is not a valid state of a job"
            raise InputError(
                f"{joined(self.name, STATE)}: {problem}; use --force to start again"
            ) from None
        return dict(state)

    def check(self, state: Mapping[str, Any], made_of: Mapping[str, str]) -> None:
        """Check that a job is continued with what it was begun with.

        Raises:
            InputError: something else was given; the message says what.
        """
        before = state["made_of"]
        if other := [name for name in made_of if before.get(name) != made_of[name]]:
            problem = f"was begun with another {' and another '.join(other)}"
            raise InputError(f"{self.name}: {problem}; use --force to start again")

    def begin(self, made_of: Mapping[str, str], blocks: Sequence[Block], piece: int) -> None:
        """Write the state of a new job.

        Args:
            made_of: hashes of what may not change.
            blocks: of the input.
            piece: rows of a part.
        """
        state = {
            "format": _FORMAT,
            "made_of": dict(made_of),
            "rows": sum(block.rows for block in blocks),
            "piece": piece,
            "blocks": [astuple(block) for block in blocks],
        }
        write_whole(self.name, STATE, json.dumps(state).encode() + b"\n")

    def done(self) -> tuple[list[Part], Counter[str]]:
        """The parts that are there, and what the summary counts of them.

        What was not whole when its process was killed is deleted, and so is a part of which a
        larger one has all rows.

        Raises:
            InputError: a part was changed, or two have rows in common.
        """
        files = self._files()
        parts, useless = parts_in(self.name, files)
        counts = count_parts(self.name, parts, files)
        self._delete([*useless, *filter(is_temporary, files)])
        return parts, counts

    def spent(self) -> Amounts:
        """What runs with a budget have spent so far; nothing without a budget.

        Raises:
            InputError: the file that says so was changed.
        """
        if SPENT not in self._files():
            return Amounts()
        try:
            with open_file(joined(self.name, SPENT)) as file:
                return amounts_of(json.load(file))
        except _UNREADABLE:
            problem = f"{SPENT} was changed since it was written"
            raise InputError(f"{self.name}: {problem}; use --force to start again") from None

    def lacks_copies(self, blocks: Iterable[Block]) -> bool:
        """Whether blocks are of copies that are gone, as after the end of a job."""
        copies = {joined(self.name, name) for name in self._files() if is_copy(name)}
        return any(block.file != block.source and block.file not in copies for block in blocks)

    def finish(self, rows: int) -> None:
        """Delete the copies of the input, and what workers of a run before have left.

        Args:
            rows: number of rows that the parts must have.

        Raises:
            InputError: two parts have rows in common, or there are too few or too many rows.
        """
        files = self._files()
        parts, useless = parts_in(self.name, files)
        if (found := sum(part.rows for part in parts)) != rows:
            problem = f"its parts have {found:,} rows, and the input has {rows:,}"
            raise InputError(f"{self.name}: {problem}; use --resume, or --force to start again")
        self._delete([*useless, *filter(is_temporary, files), *filter(is_copy, files)])

    def _delete(self, names: Iterable[str]) -> None:
        in_parallel(delete, [joined(self.name, name) for name in names])

    def _files(self) -> dict[str, int]:
        return {name: size for name, size in files_in(self.name).items() if name != _LOCK}


def _is_ours(name: str) -> bool:
    return name in {STATE, SPENT} or is_of_part(name) or is_copy(name) or is_temporary(name)

"""The folder of a job: its state, and the parts that are done.

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

from secondpass import InputError
from secondpass.formats.shared import open_locked
from secondpass_ray.blocks import Block
from secondpass_ray.coordination import SPENT, Amounts, amounts_of
from secondpass_ray.parts import Part, count_parts, is_of_part, parts_in
from secondpass_ray.staging import is_copy
from secondpass_ray.storage import (
    delete,
    files_in,
    in_parallel,
    is_temporary,
    is_uri,
    is_within,
    joined,
    kind_of,
    make_folder,
    open_file,
    write_whole,
)

STATE = "job.json"
_LOCK = ".job.lock"
_FORMAT = 1
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class JobFolder:
    """The output folder. A local folder is locked, so that one process at a time uses it.

    Args:
        name: path, or URI.

    Raises:
        InputError: it is a file, or another process uses the folder.
        OSError: the folder cannot be created.
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
        # Deleted while it is locked: afterwards another process may have locked it.
        if not is_uri(self.name):
            (Path(self.name) / _LOCK).unlink(missing_ok=True)
        self._stack.close()

    def state(self, *, resume: bool, force: bool) -> dict[str, Any] | None:
        """The content of ``job.json``; None for a new job.

        Args:
            resume: continue a job in the folder.
            force: delete the files of a job in the folder.

        Raises:
            InputError: there is a job and neither is set, or the folder has other files.
        """
        files = self._files()
        if force:
            # The state first: parts without a state are never used for another job.
            self._delete([STATE])
            self._delete(name for name in files if _is_ours(name))
            files = self._files()
        if STATE not in files:
            # Left by a job that was interrupted while it read its input.
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
        """Check that a job is continued with the input and settings that it was begun with.

        Raises:
            InputError: one of them differs; the message names it.
        """
        before = state["made_of"]
        if other := [name for name in made_of if before.get(name) != made_of[name]]:
            problem = f"was begun with another {' and another '.join(other)}"
            raise InputError(f"{self.name}: {problem}; use --force to start again")

    def begin(self, made_of: Mapping[str, str], blocks: Sequence[Block], piece: int) -> None:
        """Write the state of a new job.

        Args:
            made_of: hashes of the input and the settings, which must not change.
            blocks: blocks of the input.
            piece: number of rows of a part.
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
        """The finished parts, and their counts for the summary.

        Incomplete files of killed processes are deleted, and parts whose rows a larger part has.

        Raises:
            InputError: a part was changed, or two have rows in common.
        """
        files = self._files()
        parts, useless = parts_in(self.name, files)
        counts = count_parts(self.name, parts, files)
        self._delete([*useless, *filter(is_temporary, files)])
        return parts, counts

    def spent(self) -> Amounts:
        """The amounts that earlier runs with a budget have spent.

        Raises:
            InputError: the file with the amounts is damaged.
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
        """Whether copies that blocks refer to were deleted, as at the end of a job."""
        copies = {joined(self.name, name) for name in self._files() if is_copy(name)}
        return any(
            is_within(block.file, self.name) and block.file not in copies for block in blocks
        )

    def finish(self, rows: int) -> None:
        """Delete the copies of the input, and files that workers of earlier runs have left.

        Args:
            rows: number of rows that the parts must have.

        Raises:
            InputError: two parts have rows in common, or there are too few or too many rows.
        """
        files = self._files()
        parts, useless = parts_in(self.name, files)
        if (written := sum(part.rows for part in parts)) != rows:
            problem = f"its parts have {written:,} rows, and the input has {rows:,}"
            raise InputError(f"{self.name}: {problem}; use --resume, or --force to start again")
        self._delete([*useless, *filter(is_temporary, files), *filter(is_copy, files)])

    def _delete(self, names: Iterable[str]) -> None:
        in_parallel(delete, [joined(self.name, name) for name in names])

    def _files(self) -> dict[str, int]:
        return {name: size for name, size in files_in(self.name).items() if name != _LOCK}


def _is_ours(name: str) -> bool:
    return name in {STATE, SPENT} or is_of_part(name) or is_copy(name) or is_temporary(name)

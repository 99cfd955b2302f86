"""Errors of files, measures and indexes.

::

    SecondPassError
    ├── FormatError (also a ValueError)    a malformed file, or records that a format cannot hold
    ├── MeasureError (also a ValueError)   an unknown measure, or one that cannot be computed
    └── IndexFaultError (also a ValueError)   a folder that is not an index, or an unusable index
        └── StaleIndexError                its source has changed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath

from secondpass.errors import InputError, SecondPassError
from secondpass.settings import describe


class FormatError(SecondPassError, ValueError):
    """A file is malformed, or its format cannot hold what should be written.

    Args:
        path: the file.
        line: 1-based line number; None where the error is not in a line that was read.
        problem: what is wrong.
    """

    def __init__(self, path: str | PathLike[str], line: int | None, problem: str) -> None:
        self.path, self.line, self.problem = fspath(path), line, problem
        super().__init__(self.path, line, problem)

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.problem}"


class MeasureError(SecondPassError, ValueError):
    """A measure, as the caller wrote it, is unknown, wrong, or cannot be computed."""

    def __init__(self, measure: str, problem: str) -> None:
        self.measure, self.problem = measure, problem
        super().__init__(measure, problem)

    def __str__(self) -> str:
        return f"measure {self.measure!r}: {self.problem}"


class IndexFaultError(SecondPassError, ValueError):
    """A folder is not an index, or its index cannot be used: incomplete, changed or incompatible.

    ``renew`` is the command that rebuilds it.
    """

    def __init__(self, folder: str, problem: str, renew: str = "") -> None:
        self.folder, self.problem, self.renew = folder, problem, renew
        super().__init__(folder, problem, renew)

    def __str__(self) -> str:
        message = f"{self.folder}: {self.problem}"
        return f"{message}. To rebuild it, run: {self.renew}" if self.renew else message


class StaleIndexError(IndexFaultError):
    """The source of an index has changed since the index was built; ``changes`` is one per file."""

    def __init__(self, folder: str, changes: Sequence[str], renew: str) -> None:
        self.changes = tuple(changes)
        IndexFaultError.__init__(self, folder, f"is stale: {first_few(changes)}", renew)
        self.args = (folder, self.changes, renew)


def check_numbers(**numbers: tuple[object, int]) -> None:
    """Raise an InputError unless each is an integer of at least the minimum paired with it."""
    for name, (number, minimum) in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < minimum:
            raise InputError(
                f"{name}: must be a whole number of {minimum} or more, not {describe(number)}"
            )


def first_few(names: Sequence[str] | Mapping[str, str]) -> str:
    """The first names, comma-separated, and the number of the others."""
    first = ", ".join([*names][:3])
    return first if len(names) <= 3 else f"{first}, and {len(names) - 3} more"

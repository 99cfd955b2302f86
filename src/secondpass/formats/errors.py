"""What evaluation raises beyond the core's own exceptions.

::

    SecondPassError
    ├── FormatError (also a ValueError)    a file that cannot be read, or records no file can hold
    ├── MeasureError (also a ValueError)   no such measure, or one that cannot be computed here
    └── IndexFaultError (also a ValueError)   a folder that is no index, or one that is not served
        └── StaleIndexError                its source has changed since
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath

from secondpass.errors import InputError, SecondPassError
from secondpass.settings import describe


class FormatError(SecondPassError, ValueError):
    """A file is malformed, or what was to be written does not fit its format.

    Args:
        path: the file.
        line: 1-based number of the line; None when nothing was read.
        problem: what is wrong.
    """

    def __init__(self, path: str | PathLike[str], line: int | None, problem: str) -> None:
        self.path = fspath(path)
        self.line = line
        self.problem = problem
        super().__init__(self.path, line, problem)

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.problem}"


class MeasureError(SecondPassError, ValueError):
    """A measure is unknown, its parameters are wrong, or it cannot be computed.

    Args:
        measure: its name as it was given.
        problem: what is wrong.
    """

    def __init__(self, measure: str, problem: str) -> None:
        self.measure = measure
        self.problem = problem
        super().__init__(measure, problem)

    def __str__(self) -> str:
        return f"measure {self.measure!r}: {self.problem}"


class IndexFaultError(SecondPassError, ValueError):
    """A folder is no index, or holds one that is not served: not whole, or made otherwise.

    Args:
        folder: the index.
        problem: what is wrong with it.
        renew: the command that makes it anew.
    """

    def __init__(self, folder: str, problem: str, renew: str = "") -> None:
        self.folder = folder
        self.problem = problem
        self.renew = renew
        super().__init__(folder, problem, renew)

    def __str__(self) -> str:
        told = f"{self.folder}: {self.problem}"
        return f"{told}. Make it anew: {self.renew}" if self.renew else told


class StaleIndexError(IndexFaultError):
    """The source of an index is no longer what it was made of.

    Args:
        folder: the index.
        changes: what has changed, one file each.
        renew: the command that makes it anew.
    """

    def __init__(self, folder: str, changes: Sequence[str], renew: str) -> None:
        self.changes = tuple(changes)
        IndexFaultError.__init__(self, folder, f"is stale: {few(changes)}", renew)
        self.args = (folder, self.changes, renew)


def check_numbers(**numbers: tuple[object, int]) -> None:
    """Refuse numbers that are not whole, or less than the least that is given with each.

    Raises:
        InputError: naming the first of them.
    """
    for name, (number, least) in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            told = f"must be a whole number of {least} or more, not {describe(number)}"
            raise InputError(f"{name}: {told}")


def few(names: Sequence[str] | Mapping[str, str], shown: int = 3) -> str:
    """The first few of them, and how many more there are."""
    first = ", ".join([*names][:shown])
    return first if len(names) <= shown else f"{first}, and {len(names) - shown} more"

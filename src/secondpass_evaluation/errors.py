"""Errors of measures and indexes, both of which are errors of the library, and ValueErrors; and
a check of arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from secondpass import InputError, SecondPassError
from secondpass.settings import describe


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


def check_mapping(name: str, value: object) -> None:
    """Raise InputError unless an argument is a mapping."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: must be a mapping, not {describe(value)}")


def first_few(names: Sequence[str] | Mapping[str, str]) -> str:
    """The first names, comma-separated, and the number of the others."""
    first = ", ".join([*names][:3])
    return first if len(names) <= 3 else f"{first}, and {len(names) - 3} more"

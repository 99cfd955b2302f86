"""The error of files, and the check of numbers."""

from __future__ import annotations

from os import PathLike, fspath

from secondpass.errors import InputError, SecondPassError, printable
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
        path = printable(self.path)
        place = path if self.line is None else f"{path}:{self.line}"
        return f"{place}: {self.problem}"


def check_numbers(**numbers: tuple[object, int]) -> None:
    """Raise an InputError unless each is an integer of at least the minimum paired with it."""
    for name, (number, minimum) in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < minimum:
            raise InputError(
                f"{name}: must be a whole number of {minimum} or more, not {describe(number)}"
            )

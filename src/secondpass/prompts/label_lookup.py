"""Finds the document that a model means by what it writes for a label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from secondpass.errors import ReplyError

# Around a label, in any number: a model may also forget one of two.
_BRACKETS = " \t\r\n[](){}<>\"'`\u201c\u201d\u2018\u2019"
# "doc k4t", "id: k4t", "passage_3", "Document 3". Words such as "rank" or "no." are left out: the
# number behind them may be a rank.
_PREFIX = re.compile(
    r"(?:document|doc|passage|candidate|chunk|node|item|text|label|id|index)"
    r"(?:\s*[:=#]\s*|[_.\-]|\s+|(?=\[)|(?=\d))",
    re.I,
)
_INTEGER = re.compile(r"[+-]?\d{1,9}(?:\.0*)?", re.ASCII)
_LONGEST = 300
"""Characters of a label with its prefix. Labels themselves have no more than about 200."""


class Labels:
    """Labels by what a model may write for them.

    Args:
        names: as shown; all different, whatever their case.
        first: for labels that are numbers, the first of them; else None.
    """

    def __init__(self, names: Sequence[str], first: int | None) -> None:
        self.names = names
        self.first = first
        self.numeric = all(name.isdecimal() for name in names)
        self._places = {plain(name): at for at, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.names)

    def place(self, value: object) -> int | None:
        """The place of a label; None for what is none."""
        if self.first is not None:
            number = self.number(value)
            return None if number is None or number not in self._range else number - self.first
        if isinstance(value, float) and value.is_integer() and abs(value) <= 1e9:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or len(value) > _LONGEST:
            return None
        # Each step only where the one before finds nothing: an id may look decorated itself.
        bare = value.strip(_BRACKETS)
        for written in (value, bare):
            place = self._places.get(plain(written))
            if place is not None:
                return place
        inner = _without_prefix(bare)
        # An id that is a number may be meant by "passage 7", and so may the seventh passage.
        if inner is None or inner.isdecimal():
            return None
        return self._places.get(plain(inner))

    def number(self, value: object) -> int | None:
        """The integer that a value spells, for labels that are numbers."""
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return value if abs(value) <= 10**9 else None
        if isinstance(value, float):
            return int(value) if value.is_integer() and abs(value) <= 1e9 else None
        if not isinstance(value, str) or len(value) > _LONGEST:
            return None
        bare = value.strip(_BRACKETS)
        inner = _without_prefix(bare) or bare
        return int(float(inner)) if _INTEGER.fullmatch(inner) else None

    def is_beyond(self, value: object) -> bool:
        """Whether a number is just beyond one end, as where labels are counted from another one."""
        number = None if self.first is None else self.number(value)
        return number in {self._range.start - 1, self._range.stop}

    @property
    def _range(self) -> range:
        first = self.first or 0
        return range(first, first + len(self))

    def check_base(self, given: Iterable[object]) -> None:
        """Refuse numbers that were counted from another first number than the labels.

        A number just beyond one end is a stray one only if the other end is there as well.

        Raises:
            ReplyError: the numbers are shifted.
        """
        if self.first is None:
            return
        numbers = {self.number(value) for value in given}
        first, last = self._range[0], self._range[-1]
        shifted_up = last + 1 in numbers and first not in numbers
        shifted_down = first - 1 in numbers and last not in numbers
        if shifted_up or shifted_down:
            raise ReplyError(f"its numbers do not count from {self.first}")


def plain(label: str) -> str:
    """A label as labels are compared: in one case, white space collapsed."""
    return re.sub(r"\s+", " ", label).strip().casefold()


def _without_prefix(text: str) -> str | None:
    """A label without the prefix before it; None where it has none."""
    match = _PREFIX.match(text)
    return None if match is None else text[match.end() :].strip(_BRACKETS)

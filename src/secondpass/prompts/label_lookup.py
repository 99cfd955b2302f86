"""Looks up which document a model means by what it writes for a label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from secondpass.errors import ReplyError

# Around a label. Any number of them: models also drop one of a pair.
_BRACKETS = " \t\r\n[](){}<>\"'`\u201c\u201d\u2018\u2019"
# "doc k4t", "id: k4t", "passage_3", "Document 3". Not "rank" or "no.", whose number may be a rank.
_PREFIX = re.compile(
    r"(?:document|doc|passage|candidate|chunk|node|item|text|label|id|index)"
    r"(?:\s*[:=#]\s*|[_.\-]|\s+|(?=\[)|(?=\d))",
    re.I,
)
_INTEGER = re.compile(r"[+-]?\d{1,9}(?:\.0*)?", re.ASCII)
_MAX_LENGTH = 300
"""Characters of a label with its prefix. Labels themselves have at most about 200."""


class Labels:
    """The labels of a question.

    Args:
        names: as shown; unique regardless of case.
        first: the first label where labels are indices; else None.
    """

    def __init__(self, names: Sequence[str], first: int | None) -> None:
        self.names = names
        self.first = first
        self.numeric = all(name.isdecimal() for name in names)
        self._places = {plain(name): place for place, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.names)

    def place(self, value: object) -> int | None:
        """The place of a label, from 0; None for what is no label."""
        if self.first is not None:
            number = self.number(value)
            return None if number is None or number not in self._range else number - self.first
        if isinstance(value, float) and value.is_integer() and abs(value) <= 1e9:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or len(value) > _MAX_LENGTH:
            return None
        # In this order, because an id may have brackets or a prefix of its own.
        bare = value.strip(_BRACKETS)
        for written in (value, bare):
            place = self._places.get(plain(written))
            if place is not None:
                return place
        inner = _without_prefix(bare)
        # "passage 7" may mean the id 7 or the seventh passage.
        if inner is None or inner.isdecimal():
            return None
        return self._places.get(plain(inner))

    def number(self, value: object) -> int | None:
        """The integer that a value states, where labels are indices."""
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return value if abs(value) <= 10**9 else None
        if isinstance(value, float):
            return int(value) if value.is_integer() and abs(value) <= 1e9 else None
        if not isinstance(value, str) or len(value) > _MAX_LENGTH:
            return None
        bare = value.strip(_BRACKETS)
        inner = _without_prefix(bare) or bare
        return int(float(inner)) if _INTEGER.fullmatch(inner) else None

    def is_beyond(self, value: object) -> bool:
        """Whether an index is next to the first or last, as if counted from another number."""
        number = None if self.first is None else self.number(value)
        return number in {self._range.start - 1, self._range.stop}

    @property
    def _range(self) -> range:
        first = self.first or 0
        return range(first, first + len(self))

    def check_base(self, values: Iterable[object]) -> None:
        """Refuse indices that count from another number than the labels.

        An index just beyond one end is a stray one only if the other end is there as well.

        Raises:
            ReplyError: the indices are shifted.
        """
        if self.first is None:
            return
        numbers = {self.number(value) for value in values}
        first, last = self._range[0], self._range[-1]
        shifted_up = last + 1 in numbers and first not in numbers
        shifted_down = first - 1 in numbers and last not in numbers
        if shifted_up or shifted_down:
            raise ReplyError(f"its numbers do not count from {self.first}")


def plain(label: str) -> str:
    """Normalize a label for comparison: its case and white space."""
    return re.sub(r"\s+", " ", label).strip().casefold()


def _without_prefix(text: str) -> str | None:
    """A label without its prefix; None where it has none."""
    match = _PREFIX.match(text)
    return None if match is None else text[match.end() :].strip(_BRACKETS)

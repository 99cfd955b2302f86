"""Large tables of cases: some run in `make test`, all in `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import settings


def sampled(rows: Iterable[Any], count: int = 30) -> list[Any]:
    """The rows, of which ``count``, spread evenly over those that are not ``long``, remain usual.

    Args:
        rows: made by `pytest.param`.
        count: how many to run in `make test`.
    """
    rows = list(rows)
    usual = [number for number, row in enumerate(rows) if not row.marks]
    count = min(count, len(usual))
    kept = {usual[index * len(usual) // count] for index in range(count)}
    return [
        row
        if number in kept or row.marks
        else pytest.param(*row.values, id=row.id, marks=pytest.mark.long)
        for number, row in enumerate(rows)
    ]


def examples(count: int) -> settings:
    """That many examples of a property in `make test`; in `make test-long`, as many as of others.

    Args:
        count: fewer than usual where an example is expensive, more where the property needs them.
    """
    usual = settings().max_examples
    return settings(deadline=None, max_examples=usual if usual > 1000 else count)


def rotating(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrises over the product of the axes; as many cases as the longest has remain usual.

    Each value of each axis is in one of them or more; the other cases are ``long``.
    """
    lengths = [len(values) for values in axes.values()]
    # A shift per turn, or axes of the same length would always give the same pairs.
    usual = {
        tuple((case + place * (case // length)) % length for place, length in enumerate(lengths))
        for case in range(max(lengths))
    }
    rows = []
    for indices in product(*map(range, lengths)):
        values = [axis[index] for axis, index in zip(axes.values(), indices, strict=True)]
        names = [_name(value, index) for value, index in zip(values, indices, strict=True)]
        marks = () if indices in usual else (pytest.mark.long,)
        rows.append(pytest.param(*values, id="-".join(names), marks=marks))
    return pytest.mark.parametrize(tuple(axes), rows)


def _name(value: Any, index: int) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return str(value)
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else str(index)

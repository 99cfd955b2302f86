"""Test matrices of which a few rows run every time; the others are ``long``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def rotated(*axes: Iterable[Any]) -> list[Any]:
    """The product of some axes, of which as many rows as the longest has values are not ``long``.

    Each value of each axis is in one of them or more.
    """
    values = [list(axis) for axis in axes]
    lengths = [len(axis) for axis in values]
    # A shift per turn, or axes of the same length would always give the same pairs.
    usual = {
        tuple((row + place * (row // length)) % length for place, length in enumerate(lengths))
        for row in range(max(lengths))
    }
    rows = []
    for indices in product(*map(range, lengths)):
        parameters = [axis[index] for axis, index in zip(values, indices, strict=True)]
        names = [_name(value, index) for value, index in zip(parameters, indices, strict=True)]
        marks = () if indices in usual else (pytest.mark.long,)
        rows.append(pytest.param(*parameters, id="-".join(names), marks=marks))
    return rows


def rotating(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrises over such a product, by the names of its axes."""
    return pytest.mark.parametrize(tuple(axes), rotated(*axes.values()))


def _name(value: Any, index: int) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return str(value)[:40]
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else str(index)

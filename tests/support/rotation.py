"""Test matrices of which a few rows run every time; the others are ``long``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def rotated(*axes: Iterable[Any]) -> list[Any]:
    """The product of some axes. Each value of each axis is in a row that is not ``long``."""
    values = [list(axis) for axis in axes]
    longest = max(values, key=len)
    rows = []
    for row in product(*(range(len(axis)) for axis in values)):
        lead = row[values.index(longest)]
        quick = all(index == lead % len(axis) for index, axis in zip(row, values, strict=True))
        parameters = [axis[index] for index, axis in zip(row, values, strict=True)]
        name = "-".join(str(parameter)[:40] for parameter in parameters)
        rows.append(pytest.param(*parameters, id=name, marks=() if quick else (pytest.mark.long,)))
    return rows

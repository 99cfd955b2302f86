"""Test matrices of which a few rows run every time; the others are ``long``."""

from itertools import product

import pytest


def rotated(*axes):
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
        marks = () if indices in usual else (pytest.mark.long,)
        rows.append(pytest.param(*parameters, marks=marks))
    return rows


def rotating(**axes):
    """Parametrises over such a product, by the names of its axes."""
    return pytest.mark.parametrize(tuple(axes), rotated(*axes.values()))

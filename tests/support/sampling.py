"""Large tables of cases: some run in `make test`, all in `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable
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

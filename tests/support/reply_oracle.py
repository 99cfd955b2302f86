"""What a generated reply unambiguously says, derived from how it was generated, not by reading it.

A reply is generated as rows: a document (None for one that was not shown) and what stands for its
number. The oracle applies the rules of docs/language-models.md to the rows and returns a ranking of
all documents, or ``REFUSE``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

REFUSE = "refuse"
SLACK = 1e-4

Row: TypeAlias = tuple[int | None, Any]
"""A document with its number: as meant, None for what is none, "unit" for one of another scale."""


def ranking(best_first: Sequence[int], count: int) -> tuple[int, ...]:
    """Those that the reply states, then all others as they were shown."""
    return (*best_first, *(index for index in range(count) if index not in best_first))


def shifted(written: Sequence[int], first: int, count: int) -> bool:
    """Whether indices were counted from another number than ``first``."""
    last = first + count - 1
    up = last + 1 in written and first not in written
    down = first - 1 in written and last not in written
    return up or down


def by_grades(rows: Sequence[Row], count: int, low: float, high: float) -> tuple[int, ...] | str:
    """The ranking that grades give."""
    strangers = sum(1 for document, number in rows if document is None and number is not None)
    known = {document for document, _ in rows if document is not None}
    numbers = [number for document, number in rows if document is not None]
    if "unit" in numbers or strangers > count:
        return REFUSE
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    if any(not low - SLACK <= number <= high + SLACK for number in finite):
        return REFUSE
    grades: dict[int, float] = {}
    for document in known:
        given = [number for other, number in rows if other == document]
        if all(one is not None and math.isfinite(one) for one in given):
            on_scale = {min(max(one, low), high) for one in given}
            if len(on_scale) == 1:
                grades[document] = on_scale.pop()
    if not grades:
        return REFUSE
    return ranking(sorted(grades, key=lambda one: (-grades[one], one)), count)


def by_order(rows: Sequence[Row], count: int, numbered: bool) -> tuple[int, ...] | str:
    """The ranking that an order gives, its rows with numbers beside or without."""
    documents = [document for document, _ in rows if document is not None]
    if not documents or sum(1 for document, _ in rows if document is None) > count:
        return REFUSE
    if numbered:
        numbers = [number for _, number in rows]
        if any(type(number) not in {int, float} or not math.isfinite(number) for number in numbers):
            return REFUSE
        if any(numbers[index] <= numbers[index + 1] for index in range(len(numbers) - 1)):
            return REFUSE
        if len(set(documents)) < len(documents):
            return REFUSE
    return ranking(list(dict.fromkeys(documents)), count)

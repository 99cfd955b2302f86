"""Values that are read from replies: the scores of a batch, or the order of a window.

They identify documents by place in the question, so they can be stored and used in another process,
where the documents have other labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from secondpass.errors import with_article


@dataclass(frozen=True, slots=True)
class BatchScores:
    """The scores that a reply gives the documents of its question.

    Attributes:
        values: for each document a finite float, or None if it has no usable score.
        refused: places of documents whose score is in the reply but cannot be used.
        unknown: number of scores for documents that were not shown.
        cut: whether the reply broke off.
        declined: places of documents that the model declined to score.
    """

    values: tuple[float | None, ...]
    refused: tuple[int, ...]
    unknown: int = 0
    cut: bool = False
    declined: tuple[int, ...] = ()

    def is_about(self, count: int) -> bool:
        """Whether this can be an answer about ``count`` documents."""
        return (
            len(self.values) == count
            and all(value is None or _is_finite(value) for value in self.values)
            and _is_count(self.unknown)
            and self.cut is False
            and are_places(self.refused, count)
            and are_places(self.declined, count)
        )


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which a reply puts the documents of its question.

    Attributes:
        places: places of documents, best first, each at most once.
        doubled: number of repeated labels; the first occurrence counts.
        unknown: number of labels that were not shown.
        cut: whether the reply broke off.
        refused: places of documents whose rank is in the reply but cannot be used.
    """

    places: tuple[int, ...]
    doubled: int
    unknown: int
    cut: bool = False
    refused: tuple[int, ...] = ()

    def is_about(self, count: int) -> bool:
        """Whether this can be an answer about ``count`` documents."""
        return (
            are_places(self.places, count)
            and are_places(self.refused, count)
            and _is_count(self.doubled)
            and _is_count(self.unknown)
            and self.cut is False
        )


def dump(value: Any) -> dict[str, Any] | None:
    """A :class:`BatchScores`, one of a subclass, or an :class:`Order` as JSON values.

    None if the reply broke off: the next one may be complete.

    Raises:
        TypeError: it is of another type.
    """
    if not isinstance(value, BatchScores | Order):
        raise TypeError(f"{with_article(type(value).__name__)} cannot be stored")
    return None if value.cut else {item.name: getattr(value, item.name) for item in fields(value)}


def load(data: Any, count: int, *kinds: type) -> Any:
    """The reverse of :func:`dump`.

    Args:
        data: JSON values.
        count: number of documents in the question.
        kinds: classes of which the first that fits is used; by default those of this module.

    Raises:
        ArithmeticError | AttributeError | TypeError | ValueError: the data is no answer about
            ``count`` documents.
    """
    for kind in kinds or (BatchScores, Order):
        if data.keys() == {item.name for item in fields(kind)}:
            value = kind(**{name: _with_tuples(item) for name, item in data.items()})
            if value.is_about(count):
                return value
    raise ValueError(f"no answer about {count} documents")


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def are_places(places: Iterable[Any], count: int) -> bool:
    """Whether these are distinct places of ``count`` documents."""
    values = list(places)
    valid = all(type(place) is int and 0 <= place < count for place in values)
    return valid and len(set(values)) == len(values)

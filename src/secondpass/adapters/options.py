"""Checks the arguments of a call."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from secondpass.candidates import kind_of
from secondpass.errors import ConfigurationError, InputError, Problem, with_article
from secondpass.methods import Stage
from secondpass.ordering import to_ordering
from secondpass.reranker import Reranker
from secondpass.runtime.fits import check_fits
from secondpass.runtime.floors import Floor
from secondpass.settings import describe

T = TypeVar("T")


def whole_number(name: str, value: Any) -> int | None:
    """A number of documents as Python's int, which can be saved; None stays None.

    Raises:
        InputError: it is not an integer of 1 or more.
    """
    if value is None:
        return None
    # A numpy array has an __index__, which raises unless it holds a single number.
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < 1:
        raise InputError(f"{name}: give a whole number of 1 or more, not {describe(value)}")
    return number


def plain_number(value: Any) -> Any:
    """Python's float for a real number of another library, which cannot be saved."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return float(value) if is_number else value


def finite_number(name: str, value: Any) -> float | None:
    """A threshold as Python's float; None stays None.

    Raises:
        InputError: it is not a finite number.
    """
    number = plain_number(value)
    if number is not None and (type(number) is not float or not math.isfinite(number)):
        raise InputError(f"{name}: give a finite number, not {describe(value)}")
    return number


def check_order(order: object, reranker: Reranker) -> None:
    """Check that an ordering exists.

    Raises:
        ConfigurationError: it does not, or its settings are wrong.
    """
    try:
        to_ordering(order, reranker.orders)
    except ConfigurationError as error:
        problems = [problem.under(("order",)) for problem in error.problems]
        raise ConfigurationError(problems) from None


def check_floor(name: str, value: object, reranker: Reranker) -> None:
    """Check that a component may have a threshold.

    Args:
        name: of the parameter.
        value: the threshold; None for none.
        reranker: the reranker that it is passed to.

    Raises:
        ConfigurationError: the scores of the reranker's method are ranks.
    """
    if value is None:
        return
    stage = reranker._stages[0]
    try:
        Floor(0.0).check(stage.method, stage.blend)
    except ConfigurationError as error:
        problems = [Problem((name,), problem.message) for problem in error.problems]
        raise ConfigurationError(problems) from None


def check_depth(depth: int | None, reranker: Reranker) -> None:
    """Check that fitted settings, such as a threshold, are valid for a component's depth.

    Raises:
        ConfigurationError: a setting was fitted for another depth.
    """
    if depth is None:
        return
    first = Stage(reranker.method, reranker.blend, reranker.floor, reranker.probabilities)
    stages = (first, *reranker.fallback)
    check_fits(stages, depth, reranker.render, reranker.passages)


def checked_list(
    values: object, kind: type[T], name: str, plural: str, hints: Mapping[Any, str] | None = None
) -> list[T]:
    """The framework's documents as a list.

    Args:
        values: documents; any iterable of them.
        kind: their class.
        name: name of the argument.
        plural: plural of the class's name.
        hints: other class -> text for the message on what to write instead.

    Raises:
        InputError: one is not of the class; the message has its index.
    """
    hints = hints or {}
    is_single = isinstance(values, (str, bytes, Mapping, kind, *hints))
    if is_single or not isinstance(values, Iterable):
        raise InputError(f"{name}: give a list of {plural}, not {kind_of(values)}")
    checked = list(values)
    for index, value in enumerate(checked):
        if not isinstance(value, kind):
            hint = next((hints[other] for other in hints if isinstance(value, other)), "")
            message = f"give {with_article(kind.__name__)}, not {kind_of(value)}{hint}"
            raise InputError(f"{name}[{index}]: {message}")
    return checked

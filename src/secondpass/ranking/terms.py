"""Terms: what else counts beside relevance, such as age, added to the scores of a ranking.

``final = (score + Σ weight · term) / (1 + Σ weight)``, for scored candidates, where the score and
all terms are 0 to 1. So of two candidates, the one with the lower score rises above the other only
if its score is less than ``Σ weight`` below.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from secondpass.errors import ConfigurationError, Problem, reraise_exit
from secondpass.ranking.blending import Blend, minmax, sigmoid
from secondpass.ranking.rendering import Field
from secondpass.ranking.scoring import to_float
from secondpass.settings import Nested, configurable, describe, registry
from secondpass.types import Candidate, ScoreKind, plain_id

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, MinLen

UnitScale: TypeAlias = Literal["none", "sigmoid", "minmax"]
"""How scores become 0 to 1: as they are, by a sigmoid, by the lowest and highest of the list."""

_DAY = 86_400  # seconds
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""The numbers above which a time is not in seconds, and its units for each of them. 1e11 seconds
are the year 5138, 1e14 milliseconds and 1e17 microseconds, too."""
_FEWEST_SECONDS = 1e8
"""Lower numbers, but not below 0, are more likely of another unit, such as days, than of 1970."""
_FIRST_YEAR, _LAST_YEAR = 1900, 2100
"""The years that digits of a number may state."""
_MONTH = re.compile(r"\d{4}-\d\d", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Term:
    """A number of 0 to 1 of each candidate, from one of its fields.

    Attributes:
        field: written as in ``render``: a dot reads nested mappings and objects, and
            ``updated|created`` is the first that a candidate has.
        weight: relative to the weight of the score, which is 1.
    """

    field: Annotated[str, MinLen(1)]
    weight: Annotated[float, Gt(0)]

    @cached_property
    def reader(self) -> Field:
        """Reads the field of a candidate."""
        return Field(self.field)

    @property
    def absent(self) -> float | None:
        """The term of candidates without a readable value; None for the median of the others."""
        raise NotImplementedError

    def of(self, value: Any, now: float) -> float | None:
        """The term of a value that is not None; None if it cannot be read.

        Args:
            value: of the field.
            now: seconds since 1970.
        """
        raise NotImplementedError


@configurable
@dataclass(frozen=True, kw_only=True)
class Recency(Term):
    """``2 ** (-age / half_life_days)``: 1 for what is new.

    A time is a date or time in ISO 8601 (UTC without an offset), an object of ``datetime`` or
    numpy, or a number of seconds since 1970; above 1e11, of milliseconds, above 1e14 of
    microseconds, above 1e17 of nanoseconds. A whole number below 1e8 is read by its digits, as the
    year 2026, the month 202611 or the date 20261128, from 1900 to 2100; other numbers between 0 and
    1e8 cannot be read. A year or a month stands for its first day. A time of more than a day ahead
    cannot be read; a lesser one has the age 0.

    Attributes:
        half_life_days: the age at which the term is 0.5.
        missing: the term of candidates without a time that can be read; None for the median of the
            others in the list.
    """

    half_life_days: Annotated[float, Gt(0)]
    missing: Annotated[float, Ge(0), Le(1)] | None = None

    @property
    def absent(self) -> float | None:
        return self.missing

    def of(self, value: Any, now: float) -> float | None:
        seconds = to_seconds(value)
        if seconds is None or seconds > now + _DAY:
            return None
        age = max(0.0, now - seconds) / _DAY
        return float(2.0 ** (-age / self.half_life_days))


@configurable
@dataclass(frozen=True, kw_only=True)
class Number(Term):
    """A number, mapped to 0 to 1.

    Attributes:
        low: the number, and all beyond it, at which the term is 0.
        high: the same for 1. It may be lower than ``low``, if less is better.
        scale: ``linear``, or ``log`` for counts: ``log(1 + x)`` in place of ``x``.
        missing: the term of candidates without a number; None for the median of the others in the
            list.
    """

    low: float = 0
    high: float
    scale: Literal["linear", "log"] = "linear"
    missing: Annotated[float, Ge(0), Le(1)] | None = None

    def __post_init__(self) -> None:
        if self.low == self.high:
            raise ConfigurationError([Problem(("high",), "must differ from low")])
        if self.scale == "log" and min(self.low, self.high) < 0:
            raise ConfigurationError(
                [Problem(("scale",), "'log' needs low and high of at least 0")]
            )

    @property
    def absent(self) -> float | None:
        return self.missing

    def of(self, value: Any, now: float) -> float | None:  # noqa: ARG002 - a number has no age
        number = to_float(value)
        if number is None or math.isnan(number):
            return None
        low, high = self.low, self.high
        number = min(max(number, min(low, high)), max(low, high))
        if self.scale == "log":
            low, high, number = math.log1p(low), math.log1p(high), math.log1p(number)
        # Halved first: the difference of two large floats may overflow.
        return (number / 2 - low / 2) / (high / 2 - low / 2)


@configurable
@dataclass(frozen=True, kw_only=True)
class Value(Term):
    """A number for each value of a field, such as a source.

    Attributes:
        values: the terms of values, 0 to 1. Of whole numbers, the keys are their digits, of
            booleans ``true`` and ``false``.
        default: the term of other values, and of candidates without the field; None for the median
            of the others in the list.
    """

    values: Annotated[Mapping[str, Annotated[float, Ge(0), Le(1)]], MinLen(1)]
    default: Annotated[float, Ge(0), Le(1)] | None = None

    @property
    def absent(self) -> float | None:
        return self.default

    def of(self, value: Any, now: float) -> float | None:  # noqa: ARG002 - a value has no age
        value = plain_id(_of_python(value))
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int):
            value = str(value)
        return self.values.get(value, self.default) if isinstance(value, str) else self.default


def to_seconds(value: Any) -> float | None:
    """A time as seconds since 1970; None if it is none. See :class:`Recency`."""
    try:
        value = _of_python(value)
        if isinstance(value, str):
            value = _from_text(value.strip())
        number = None if isinstance(value, date) else to_float(value)
        if number is not None and number.is_integer():
            value = _from_digits(int(number)) or value
        if isinstance(value, datetime):
            if value.utcoffset() is None:
                value = value.replace(tzinfo=UTC)
            seconds = value.timestamp()
        elif isinstance(value, date):
            seconds = datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
        elif number is not None and not 0 < number < _FEWEST_SECONDS:
            seconds = number / next((unit for least, unit in _UNITS if abs(number) > least), 1)
        else:
            return None
    except BaseException as error:  # not ISO 8601; or a foreign class, such as pandas' NaT
        reraise_exit(error)
        return None
    return seconds if math.isfinite(seconds) else None


def _of_python(value: Any) -> Any:
    """A number, boolean or time of numpy or torch as Python's; others as they are."""
    is_array = isinstance(getattr(value, "shape", None), tuple)
    return value.item() if is_array and not value.shape else value


def _from_text(text: str) -> datetime | float:
    """The time that a text states: in ISO 8601, or as a number."""
    if _MONTH.fullmatch(text):
        text += "-01"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return float(text)


def _from_digits(number: int) -> date | None:
    """The first day of a year or month, or a date, if the digits of a number state one."""
    digits = str(number) if 0 < number < _FEWEST_SECONDS else ""
    if len(digits) not in {4, 6, 8} or not _FIRST_YEAR <= int(digits[:4]) <= _LAST_YEAR:
        return None
    try:
        return date(int(digits[:4]), int(digits[4:6] or 1), int(digits[6:] or 1))
    except ValueError:
        return None


def unit_scale(kind: ScoreKind | None, blend: Blend | None) -> UnitScale:
    """How scores of a kind, or of a blend, become 0 to 1."""
    if blend is not None:
        return "none" if blend.by_value else "minmax"
    if kind == "logit":
        return "sigmoid"
    return "none" if kind in {"probability", "grade"} else "minmax"


def unit_scores(
    scores: Sequence[float], scale: UnitScale, grades: tuple[float, float] | None
) -> list[float]:
    """Scores on 0 to 1; ``grades`` are the lowest and highest grade of scores that are grades."""
    if scale == "minmax":
        return minmax(scores)
    if scale == "sigmoid":
        return [sigmoid(score) for score in scores]
    low, high = grades or (0.0, 1.0)
    return [(score - low) / (high - low) for score in scores]


@dataclass(frozen=True, slots=True)
class Sum:
    """Scores with the terms that were added to them. Lists are aligned with the candidates.

    Attributes:
        scale: how the scores became 0 to 1.
        before: the scores before that.
        scores: 0 to 1.
        fields, weights: of the terms, without those that no candidate has.
        values: the values of each of these terms, 0 to 1.
        missing: by field, the indices of candidates without a value that can be read, where that is
            to be reported.
    """

    scale: UnitScale
    before: Sequence[float]
    scores: Sequence[float]
    fields: tuple[str, ...]
    weights: tuple[float, ...]
    values: Sequence[Sequence[float]]
    missing: Mapping[str, Sequence[int]]

    @property
    def final(self) -> list[float]:
        """The final scores."""
        # Each weight as a share of the largest, so that no sum overflows.
        largest = max((1.0, *self.weights))
        weights = [weight / largest for weight in (1.0, *self.weights)]
        whole = math.fsum(weights)
        columns = (self.scores, *self.values)
        # Sums of equal numbers are equal, in whatever order the fields have them.
        return [
            math.fsum(map(operator.mul, weights, row)) / whole for row in zip(*columns, strict=True)
        ]

    def by_field(self) -> list[dict[str, float]]:
        """The terms of each candidate by field."""
        if not self.fields:
            return [{} for _ in self.scores]
        return [dict(zip(self.fields, row, strict=True)) for row in zip(*self.values, strict=True)]


def added(
    terms: Sequence[Term],
    candidates: Sequence[Candidate],
    before: Sequence[float],
    scores: Sequence[float],
    *,
    scale: UnitScale,
    now: float,
) -> Sum:
    """The terms of candidates with these scores; see :class:`Sum`."""
    kept: list[Term] = []
    columns: list[list[float]] = []
    missing: dict[str, list[int]] = {}
    for term in terms:
        read = term.reader.value
        found = [read(candidate) for candidate in candidates]
        column = [None if value is None else term.of(value, now) for value in found]
        known = [number for number in column if number is not None]
        unread = [index for index, number in enumerate(column) if number is None]
        if known and term.absent is not None:
            # A term is set for candidates without the field, so only unreadable ones are reported.
            unread = [index for index in unread if found[index] is not None]
        if unread:
            missing[term.field] = unread
        if known:
            absent = _median(known) if term.absent is None else term.absent
            kept.append(term)
            columns.append([absent if number is None else number for number in column])
    return Sum(
        scale,
        before,
        scores,
        tuple(term.field for term in kept),
        tuple(term.weight for term in kept),
        columns,
        missing,
    )


def _median(numbers: Sequence[float]) -> float:
    # The module statistics takes longer to import than a ranking.
    ordered, middle = sorted(numbers), len(numbers) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def to_terms(value: object) -> tuple[Term, ...]:
    """Convert a list of mappings with a ``type`` to terms, with a field each."""
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise ConfigurationError(f"give a list of mappings with a 'type', not {describe(value)}")
    terms: list[Term] = []
    problems: list[Problem] = []
    for index, item in enumerate(value):
        try:
            if not isinstance(item, Mapping | Term):
                message = f"give a mapping with a 'type', not {describe(item)}"
                raise ConfigurationError(message)
            term = item if isinstance(item, Term) else registry.build("terms", item)
        except ConfigurationError as error:
            problems += [problem.under((index,)) for problem in error.problems]
            continue
        if any(term.field == other.field for other in terms):
            problems.append(Problem((index, "field"), f"{term.field!r} has a term already"))
        terms.append(term)
    if problems:
        raise ConfigurationError(problems)
    return tuple(terms)


TERMS = Nested(to_terms, lambda: {"type": "array", "items": {"anyOf": registry.schemas("terms")}})
"""A parameter whose value is a list of terms."""

"""Adapts a scorer to a method, and validates every score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any, get_args

from secondpass.effects import Judgement, Plan, RawScores, Score, Scorer, Task
from secondpass.errors import ConfigurationError, MethodError, Problem
from secondpass.settings import describe, registry, suggestion
from secondpass.types import Issue, ScoreKind

# float32 arithmetic may leave a closed range by this much; such scores are put back onto its edge.
_SLACK = 1e-4


_SLICE = 32
"""Texts a call while a deadline runs, where the scorer names no ``batch_size``."""


class ScorerMethod:
    """Judges by the scores of a :class:`~secondpass.effects.Scorer`.

    One call and one round, whatever the number of candidates, unless a deadline runs.

    Raises:
        ConfigurationError: the scorer declares a score kind, scale or batch size that cannot be.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.name = str(_member(scorer, "model_name", None) or type(scorer).__name__)
        self.score_kind: ScoreKind = check_kind(_member(scorer, "score_kind", "unbounded"))
        self.scale = _scale(scorer) if self.score_kind == "grade" else None
        self._at_most: int | None = None
        if _member(scorer, "pointwise", True):
            size = _member(scorer, "batch_size", None)
            if size is not None and (type(size) is not int or size < 1):
                told = f"must be a whole number, 1 or more, not {describe(size)}"
                raise ConfigurationError([Problem(("batch_size",), told)])
            self._at_most = size or _SLICE

    def as_setting(self, where: str) -> dict[str, Any]:
        """The scorer's settings: this class is no kind of its own."""
        return registry.dump("methods", self.scorer, where)

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Score effect over all texts, its answer checked value by value."""
        raw: RawScores = yield Score(self.scorer, task.query, task.texts, self._at_most)
        unjudged: set[int] = set()
        issues = [Issue(error.code, str(error), (), (), self.name) for error in raw.troubles]
        for start, stop, error in raw.failures:
            unjudged.update(range(start, stop))
            issues.append(Issue(error.code, str(error), tuple(range(start, stop)), (), self.name))
        if len(unjudged) == len(task.texts):
            raise raw.failures[0][2]
        scores, refused = self._read(raw.values, unjudged)
        issues.extend(refused)
        return Judgement(scores, frozenset(unjudged), issues)

    def _read(
        self, values: Sequence[Any], unjudged: set[int]
    ) -> tuple[list[float | None], list[Issue]]:
        low, high = bounds = range_of(self.score_kind, self.scale)
        scores: list[float | None] = []
        refused: dict[str, list[int]] = {}
        for index, value in enumerate(values):
            if index in unjudged:
                scores.append(None)
                continue
            number = value if type(value) is float else to_float(value)
            if number is None:
                why = "score_missing" if value is None else "score_not_a_number"
            elif low <= number <= high:  # the usual case, without a call
                scores.append(number)
                continue
            elif (edge := in_range(number, bounds)) is not None:
                scores.append(edge)
                continue
            elif math.isfinite(number):
                # Scores on another scale: those that happen to be in range mean something else.
                raise MethodError(
                    f"a score lies outside {low:g} to {high:g}, the range of {self.score_kind}"
                    " scores, so none is used",
                    "score_out_of_range",
                )
            else:
                why = "score_not_finite"
            refused.setdefault(why, []).append(index)
            scores.append(None)
        issues = [
            Issue(why, f"{len(at)} of {len(values)} scores were refused", tuple(at), (), self.name)
            for why, at in refused.items()
        ]
        if not any(score is not None for score in scores):
            codes = ", ".join(refused)
            raise MethodError(f"no score could be used ({codes})", next(iter(refused)))
        return scores, issues


def range_of(kind: ScoreKind, scale: tuple[float, float] | None = None) -> tuple[float, float]:
    """Lowest and highest score of a kind; of grades it is their scale."""
    if scale is not None:
        return scale
    # Infinities must fail the comparison, so the open ends are the largest finite floats.
    most = math.nextafter(math.inf, 0)
    ranges = {"probability": (0.0, 1.0), "rank": (0.0, 1.0), "similarity": (-1.0, 1.0)}
    return ranges.get(kind, (-most, most))


def in_range(number: float, bounds: tuple[float, float]) -> float | None:
    """The number, put back onto an edge that it misses by a rounding error; None outside."""
    low, high = bounds
    if low - _SLACK <= number <= high + _SLACK:
        return min(max(number, low), high)
    return None


def to_float(value: object) -> float | None:
    """A number of any library as a Python float; None for what is no number.

    Booleans and strings are none: a scorer that returns them does not return scores.
    """
    if isinstance(value, bool | str | bytes | bytearray):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
    except Exception:  # a foreign __float__ may raise anything
        return None
    return None if type(value).__name__ in {"bool_", "bool"} else number


def to_list(scores: object, count: int) -> list[Any]:
    """The ``count`` values of a list, tuple, array or tensor.

    Raises:
        MethodError: it is none of these, or holds another number of values.
    """
    tolist = getattr(scores, "tolist", None)
    if callable(tolist):
        scores = tolist()
    # Sets have no order, and the values of a mapping are not what iterating over it gives.
    other = (str, bytes, bytearray, memoryview, Mapping, Set)
    if isinstance(scores, other) or not isinstance(scores, Iterable):
        raise MethodError(
            f"the scorer returned a {type(scores).__name__}, not a list of scores", "scores_no_list"
        )
    values = list(islice(scores, count + 1))  # an endless iterator must not hang the pass
    if len(values) != count:
        told = "more" if len(values) > count else str(len(values))
        raise MethodError(f"the scorer returned {told} scores for {count} texts", "score_count")
    return values


def check_kind(kind: object) -> ScoreKind:
    """``kind``, if there is such a kind of score.

    Raises:
        ConfigurationError: there is none.
    """
    if isinstance(kind, str) and kind in get_args(ScoreKind):
        return kind  # type: ignore[return-value]
    hint = suggestion(str(kind), list(get_args(ScoreKind)))
    raise ConfigurationError(
        [Problem(("score_kind",), f"{describe(kind)} is no kind of score{hint}")]
    )


def _member(scorer: object, name: str, default: Any) -> Any:
    """An optional member; the default, too, where reading it raises."""
    try:
        return getattr(scorer, name, default)
    except Exception:
        return default


def _scale(scorer: Scorer) -> tuple[float, float]:
    scale = _member(scorer, "scale", None)
    try:
        low, high = scale
        if low < high and math.isfinite(high - low):
            return float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ConfigurationError(
        [
            Problem(
                ("scale",),
                "grades need (lowest, highest), a finite distance apart, not " + describe(scale),
            )
        ]
    )

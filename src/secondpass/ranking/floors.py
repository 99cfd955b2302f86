"""Thresholds and probabilities, and the fits that they come from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from secondpass.effects import Method
from secondpass.errors import ConfigurationError, Problem
from secondpass.ranking.blending import BLEND, Blend, sigmoid
from secondpass.settings import Nested, configurable, from_mapping, model_of, nested

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, Lt, MinLen


FloorOn: TypeAlias = Literal["final", "rerank"]
"""What a threshold is compared with: the final score, or the method's own score."""

Per: TypeAlias = Literal["query", "document"]
"""What a fitted threshold takes a new one to be like: queries, or relevant documents."""


@configurable
@dataclass(frozen=True)
class Fit:
    """What a threshold or probabilities were fitted on; written by the command that fits.

    A fit for another method, model, template, settings, blend or depth is a ConfigurationError of
    the reranker. The depth and the instruction of a call, and the model's precision, are known
    later: a difference is the issue ``fitted_otherwise``. The first stage cannot be checked.

    Attributes:
        method: name of the method.
        model: name of its model; None if it names none.
        template: hash of the words around query and candidate: prompts and ``render``.
        settings: hash of the other settings that scores depend on; None if they cannot be known.
        blend: the blend of the final scores; None if the fitted scores are not blended.
        depth: number of candidates that were judged; None for all.
        first_stage: name of the retriever.
        precision: of the model's arithmetic; None for methods without a local model.
        per: what the share is of: the relevant documents of each query, or of all together.
        queries: number of queries with a relevant candidate.
        documents: number of relevant candidates.
    """

    method: str
    model: str | None = None
    template: str | None = None
    settings: str | None = None
    blend: Annotated[Blend | None, BLEND] = None
    depth: Annotated[int, Ge(1)] | None = None
    first_stage: str | None = None
    precision: str | None = None
    per: Per = "query"
    queries: Annotated[int, Ge(1)] | None = None
    documents: Annotated[int, Ge(1)] | None = None


FIT = nested(Fit, optional=True)


@configurable
@dataclass(frozen=True)
class Floor:
    """A threshold: scored candidates below it are dropped.

    Attributes:
        at: the threshold.
        on: what it is compared with: the ``final`` score, or the method's ``rerank`` score. Only a
            blend by ``none`` or ``sigmoid`` makes the two differ here. A blend by ``minmax``,
            ``zscore`` or ``rrf`` makes final scores relative to the list, so ``final`` is refused
            then. None is ``final`` with a blend by ``none`` or ``sigmoid``, and ``rerank``
            otherwise.
        nothing: threshold on the rerank score: if all candidates are below it, the report has
            ``nothing_relevant``. It may be higher than the threshold. None does not decide it.
        keep: the share of relevant candidates that it was fitted to keep.
        fitted: what it was fitted on; None for a threshold that was chosen otherwise.
    """

    at: float
    on: FloorOn | None = None
    nothing: float | None = None
    keep: Annotated[float, Gt(0), Lt(1)] | None = None
    fitted: Annotated[Fit | None, FIT] = None

    def moved(self, at: float) -> Floor:
        """Replace the threshold for one call, which is not fitted; ``nothing`` stays."""
        return replace(self, at=at, keep=None, fitted=None if self.nothing is None else self.fitted)

    def resolved(self, blend: Blend | None) -> Floor:
        """A copy that states what the threshold is compared with, which depends on the blend.

        Without a blend it is the rerank score: what a list is ordered by may depend on the list.
        """
        if blend is None or not blend.by_value:
            return replace(self, on="rerank")
        return replace(self, on=self.on or "final")

    def check(self, method: Method, blend: Blend | None) -> None:
        """Raise a ConfigurationError if the scores are ranks, or relative to the list."""
        if method.score_kind == "rank":
            message = (
                f"the scores of {method.name!r} are ranks, which say how many candidates are "
                "better and not how good one is, so no threshold holds; use top_k"
            )
            raise ConfigurationError([Problem(("floor",), message)])
        if self.on == "final" and blend is not None and not blend.by_value:
            message = (
                f"final scores by {blend.normalize!r} are relative to the list: of a single "
                "candidate, always the same; leave 'on' out, or give 'rerank', for the method's "
                "own score"
            )
            raise ConfigurationError([Problem(("floor", "on"), message)])


def moved(before: object, at: Any) -> Any:
    """The setting with a threshold of another height, on the same score."""
    floor = to_floor(before)
    return floor.moved(at) if isinstance(floor, Floor) and at is not None else at


def to_floor(value: object) -> Floor | float | None:
    """Convert a setting to a number, a Floor or None."""
    if value is None or isinstance(value, Floor):
        return value
    floor: Floor
    if isinstance(value, Mapping):
        # Parsers of YAML 1.1 read the key `on` as true.
        settings = {"on" if key is True else key: item for key, item in value.items()}
        if len(settings) < len(value):
            raise ConfigurationError("has the key 'on' twice, once read as true; give it once")
        floor = from_mapping(Floor, settings)
        return floor
    try:
        floor = from_mapping(Floor, {"at": value})
    except ConfigurationError as error:
        message = error.problems[0].message
        message = message.replace("a number", "a number or a mapping", 1)
        raise ConfigurationError(message) from None
    return floor.at


def _schema() -> dict[str, Any]:
    return {"anyOf": [{"type": "number"}, model_of(Floor).model_json_schema(), {"type": "null"}]}


FLOOR = Nested(to_floor, _schema)


@configurable
@dataclass(frozen=True)
class Probabilities:
    """A mapping of rerank scores to probabilities of relevance that keeps their order.

    Either ``slope`` and ``intercept``, for ``1 / (1 + exp(-(slope * score + intercept)))`` (Platt,
    "Probabilistic outputs for support vector machines and comparisons to regularized likelihood
    methods", Advances in Large Margin Classifiers, 1999); or ``scores`` and ``values``, which are
    interpolated linearly (isotonic regression: Zadrozny and Elkan, "Transforming classifier scores
    into accurate multiclass probability estimates", KDD 2002).

    Attributes:
        slope: of the logistic function, per unit of score.
        intercept: the logit of the probability at score 0.
        scores: strictly increasing.
        values: the probabilities at these scores, nondecreasing; the first and the last also apply
            beyond the scores.
        fitted: what it was fitted on.
    """

    slope: Annotated[float, Ge(0)] | None = None
    intercept: float | None = None
    scores: Annotated[Sequence[float], MinLen(1)] | None = None
    values: Annotated[Sequence[Annotated[float, Ge(0), Le(1)]], MinLen(1)] | None = None
    fitted: Annotated[Fit | None, FIT] = None

    def __post_init__(self) -> None:
        line = [number for number in (self.slope, self.intercept) if number is not None]
        steps = [numbers for numbers in (self.scores, self.values) if numbers is not None]
        if (len(line), len(steps)) not in {(2, 0), (0, 2)}:
            raise ConfigurationError("slope and intercept, or scores and values: give one of them")
        scores, values = self.scores or (), self.values or ()
        if len(scores) != len(values):
            name, message = "values", "must have one number for each score, as fitted"
        elif any(a >= b for a, b in pairwise(scores)):
            name, message = "scores", "must rise: fitted for rising scores"
        elif any(a > b for a, b in pairwise(values)):
            name, message = "values", "must not fall: fitted for rising scores"
        else:
            return
        raise ConfigurationError([Problem((name,), message)])

    def of(self, score: float) -> float:
        """The probability, 0 to 1, of a finite rerank score."""
        if self.slope is not None and self.intercept is not None:
            return sigmoid(min(max(self.slope * score + self.intercept, -1e300), 1e300))
        scores, values = self.scores or (), self.values or ()
        place = bisect_right(scores, score)
        if place == 0 or place == len(scores):
            return values[max(place - 1, 0)]
        low, high = scores[place - 1], scores[place]
        share = (score / 2 - low / 2) / (high / 2 - low / 2)
        between = values[place - 1] + share * (values[place] - values[place - 1])
        return min(max(between, values[place - 1]), values[place])


PROBABILITIES = nested(Probabilities, optional=True)
"""A parameter whose value maps scores to probabilities."""

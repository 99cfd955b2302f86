"""Thresholds, and the fits that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from secondpass.effects import Method
from secondpass.errors import ConfigurationError, Problem
from secondpass.ranking.blending import Blend
from secondpass.settings import Nested, configurable, from_mapping, model_of, nested

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Lt

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
    blend: Annotated[Blend | None, nested(Blend, optional=True)] = None
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
        on: what it is compared with: the ``final`` score, which only a blend by ``none`` or
            ``sigmoid`` makes another one, or the method's ``rerank`` score. A blend by ``minmax``,
            ``zscore`` or ``rrf`` makes final scores relative to the list, so ``final`` is refused
            then. None is ``final`` with a blend by ``none`` or ``sigmoid``, else ``rerank``.
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
        """The same threshold with what it is compared with, which depends on the blend.

        Without a blend it is the rerank score: what a list is ordered by may depend on the list.
        """
        by_value = blend is not None and blend.by_value
        return replace(self, on=self.on or "final" if by_value else "rerank")

    def check(self, method: Method, blend: Blend | None) -> None:
        """Check that a threshold has a meaning for the scores of a method with the blend.

        Raises:
            ConfigurationError: the scores are ranks, or relative to the list.
        """
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
    """Convert a setting to a number, a Floor or None.

    Raises:
        ConfigurationError: it is neither, or a setting is wrong.
    """
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
        message = message.replace("a valid number", "a valid number or a mapping", 1)
        raise ConfigurationError(message) from None
    return floor.at


def _schema() -> dict[str, Any]:
    return {
        "anyOf": [{"type": "number"}, model_of(Floor).model_json_schema(), {"type": "null"}],
    }


FLOOR = Nested(to_floor, _schema)

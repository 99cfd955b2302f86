"""A method with the settings that make final scores of its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from secondpass.effects import Judgement
from secondpass.errors import ConfigurationError, MethodError
from secondpass.ranking.blending import BLEND, Blend
from secondpass.ranking.floors import FLOOR, PROBABILITIES, Fit, Floor, Probabilities
from secondpass.ranking.methods import METHOD, to_method
from secondpass.settings import (
    Nested,
    OneOrMore,
    configurable,
    definition,
    from_mapping,
    parameters_of,
    registry,
)
from secondpass.types import ScoreKind


@configurable
@dataclass(frozen=True)
class Stage:
    """A method, and how its scores become final scores.

    A reranker has one for its method and one for each fallback. In the configuration of a fallback,
    these settings are in the same mapping as those of its method: ``{type: embedded, floor: 0.1}``.

    Attributes:
        method: a scorer or another method.
        blend: mixes the retriever's score into the final score; None uses the method's alone.
        floor: threshold on the method's score, with a blend by ``none`` or ``sigmoid`` on the final
            score, or a Floor; scored items below it are dropped. Not for scores that are ranks.
        probabilities: maps rerank scores to probabilities of relevance.
    """

    method: Annotated[Any, METHOD]
    blend: Annotated[Blend | None, BLEND] = None
    floor: Annotated[Floor | float | None, FLOOR] = None
    probabilities: Annotated[Probabilities | None, PROBABILITIES] = None

    def __post_init__(self) -> None:
        if (floor := self._as_floor()) is not None:
            floor.check(self.method, self.blend)
        if self.blend is None:
            return
        try:
            self.blend.check(self.method.score_kind)
        except ConfigurationError as error:
            problems = [problem.under(("blend",)) for problem in error.problems]
            raise ConfigurationError(problems) from None

    def _as_floor(self) -> Floor | None:
        if self.floor is None or isinstance(self.floor, Floor):
            return self.floor
        return Floor(self.floor)

    @cached_property
    def threshold(self) -> Floor | None:
        """The setting ``floor`` as a Floor, with what it is compared with."""
        floor = self._as_floor()
        return None if floor is None else floor.resolved(self.blend)

    @cached_property
    def fits(self) -> Mapping[str, Fit]:
        """What the settings ``floor`` and ``probabilities`` were fitted on, if they were."""
        fits: dict[str, Fit] = {}
        if self.threshold is not None and self.threshold.fitted is not None:
            fits["floor"] = self.threshold.fitted
        if self.probabilities is not None and self.probabilities.fitted is not None:
            fits["probabilities"] = self.probabilities.fitted
        return fits

    def kind_of(self, judgement: Judgement) -> ScoreKind:
        """The kind of the scores in a judgement; a MethodError if final scores need another one."""
        usual: ScoreKind = self.method.score_kind
        actual = judgement.score_kind
        if actual is None or actual == usual:
            return usual
        by_value = self.blend is not None and self.blend.by_value
        if by_value or self.floor is not None or self.probabilities is not None:
            raise MethodError(
                f"the scores are of kind {actual!r}, but blend or threshold are set for {usual!r}",
                "score_out_of_range",
            )
        return actual

    def as_setting(self, where: str) -> dict[str, Any]:
        """Return the method's settings with these beside them."""
        return beside_as_setting(self, where)


def beside(cls: type, value: object) -> Any:
    """Convert a method, or a mapping with the settings of ``cls`` and of its method, to a ``cls``.

    ``cls`` is a configurable class with a setting ``method``, such as :class:`Stage`.
    """
    if isinstance(value, cls):
        return value
    own: dict[str, Any] = {}
    names = list(parameters_of(cls))
    if isinstance(value, Mapping):
        own = {name: value[name] for name in names if name in value}
        rest = {key: item for key, item in value.items() if key not in own}
        if "method" in own:
            return from_mapping(cls, {**own, **rest})
        value = rest
    names.remove("method")
    return from_mapping(cls, {**own, "method": to_method(value, names)})


def beside_as_setting(instance: Any, where: str) -> dict[str, Any]:
    """Return the mapping that :func:`beside` converts to ``instance``."""
    own = registry.dump_settings(instance, where)
    method = own.pop("method")
    if not isinstance(method, Mapping):  # the name of a variable, which stands for a whole method
        return {"method": method, **own}
    return {**method, **own}


STAGE = Nested(lambda value: beside(Stage, value), lambda: definition("stage"))

FALLBACK = OneOrMore(lambda: registry.bare_names(registry.schemas("methods")))

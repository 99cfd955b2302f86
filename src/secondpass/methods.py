"""Methods and stages, and their conversion from settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from secondpass.blending import Blend
from secondpass.effects import Judgement, Method
from secondpass.errors import ConfigurationError, MethodError
from secondpass.runtime.floors import FLOOR, Floor
from secondpass.runtime.judgements import INSTRUCTION_NOT_USED, checked, judged
from secondpass.runtime.probabilities import Probabilities
from secondpass.scoring import ScorerMethod, check_kind
from secondpass.settings import (
    Nested,
    OneOrMore,
    configurable,
    definition,
    describe,
    from_mapping,
    model_of,
    nested,
    registry,
)
from secondpass.types import ScoreKind

__all__ = [
    "FALLBACK",
    "INSTRUCTION_NOT_USED",
    "METHOD",
    "STAGE",
    "Stage",
    "beside",
    "beside_as_setting",
    "checked",
    "inner",
    "judged",
    "place_of",
    "to_method",
]


def to_method(value: object) -> Method:
    """Convert a scorer, a method, a name or a mapping with a ``type`` to a method.

    Raises:
        ConfigurationError: the value is none of these, or its settings are wrong.
    """
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, Mapping):
        value = registry.build("methods", value)
    if isinstance(value, type):
        raise ConfigurationError(f"give an instance of {value.__name__}, not the class")
    if callable(getattr(value, "judge", None)):
        if not isinstance(getattr(value, "name", None), str):
            raise ConfigurationError("a method needs a 'name', a string")
        check_kind(getattr(value, "score_kind", None))
        if not hasattr(value, "scale"):
            raise ConfigurationError("a method needs a 'scale': (lowest, highest), or None")
        windows = getattr(value, "windows", "one")
        if not isinstance(windows, str) or windows not in {"one", "each", "task"}:
            raise ConfigurationError(
                f"a method's 'windows' must be 'one', 'each' or 'task', not {describe(windows)}"
            )
        return value  # type: ignore[return-value]
    if callable(getattr(value, "score_pairs", None)):
        return ScorerMethod(value)  # type: ignore[arg-type]
    raise ConfigurationError(
        "give a scorer (an object with score_pairs), a name or a mapping with a 'type', "
        f"not {describe(value)}"
    )


def place_of(method: object, name: str) -> str | None:
    """Return the path of a setting of this method in a configuration; None if it has none."""
    path = "method"
    settings: Any = {"type": method} if isinstance(method, str) else method
    families: tuple[registry.Family, ...] = ("methods", "llms")
    for family in families:
        kind = settings.get("type") if isinstance(settings, Mapping) else None
        if not isinstance(kind, str) or kind not in registry.names(family):
            return None
        try:
            fields = model_of(registry.kind(family, kind)).model_fields
        except ConfigurationError:  # an entry point that cannot be loaded
            return None
        if name in fields:
            return f"{path}.{name}"
        path, settings = f"{path}.llm", settings.get("llm")
    return None


def inner(method: Method) -> Any:
    """Return the object that was configured: the scorer of a ScorerMethod, else the method."""
    return method.scorer if isinstance(method, ScorerMethod) else method


METHOD = Nested(to_method, lambda: definition("method"))


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
    blend: Annotated[Blend | None, nested(Blend, optional=True)] = None
    floor: Annotated[Floor | float | None, FLOOR] = None
    probabilities: Annotated[Probabilities | None, nested(Probabilities, optional=True)] = None

    def __post_init__(self) -> None:
        if self.floor is not None:
            floor = self.floor if isinstance(self.floor, Floor) else Floor(self.floor)
            floor.check(self.method, self.blend)
        if self.blend is None:
            return
        try:
            self.blend.check(self.method.score_kind)
        except ConfigurationError as error:
            problems = [problem.under(("blend",)) for problem in error.problems]
            raise ConfigurationError(problems) from None

    @cached_property
    def threshold(self) -> Floor | None:
        """The floor as a Floor, with what it is compared with."""
        if self.floor is None:
            return None
        floor = self.floor if isinstance(self.floor, Floor) else Floor(self.floor)
        return floor.resolved(self.blend)

    @property
    def depends_on_kind(self) -> bool:
        """Whether a threshold, probabilities, or a blend by value depend on the score kind."""
        by_value = self.blend is not None and self.blend.by_value
        return by_value or self.floor is not None or self.probabilities is not None

    def kind_of(self, judgement: Judgement) -> ScoreKind:
        """Return the kind of the scores in a judgement.

        Raises:
            MethodError: it is not the method's usual kind, and final scores depend on the kind.
        """
        usual: ScoreKind = self.method.score_kind
        actual = judgement.score_kind
        if actual is None or actual == usual:
            return usual
        if self.depends_on_kind:
            raise MethodError(
                f"the scores are of kind {actual!r}, but blend or floor are set for {usual!r}",
                "score_out_of_range",
            )
        return actual

    def as_setting(self, where: str) -> dict[str, Any]:
        """Return the method's settings with these beside them."""
        return beside_as_setting(self, where)


def beside(cls: type, value: object) -> Any:
    """Convert a method, or a mapping with the settings of ``cls`` and of its method, to a ``cls``.

    Args:
        cls: a configurable class with a setting ``method``, such as :class:`Stage`.
        value: an instance of ``cls``, a mapping, or anything that :func:`to_method` accepts.
    """
    if isinstance(value, cls):
        return value
    own: dict[str, Any] = {}
    if isinstance(value, Mapping):
        own = {key: value[key] for key in model_of(cls).model_fields if key in value}
        rest = {key: item for key, item in value.items() if key not in own}
        if "method" in own:
            return from_mapping(cls, {**own, **rest})
        value = rest
    return from_mapping(cls, {**own, "method": to_method(value)})


def beside_as_setting(instance: Any, where: str) -> dict[str, Any]:
    """Return the mapping that :func:`beside` converts to ``instance``.

    Raises:
        NotSerializableError: the method has no registered name.
    """
    own = registry.dump_settings(instance, where)
    return {**own.pop("method"), **own}


STAGE = Nested(lambda value: beside(Stage, value), lambda: definition("stage"))

FALLBACK = OneOrMore(lambda: registry.bare_names(registry.schemas("methods")))

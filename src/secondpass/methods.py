"""Methods and stages, made of whatever describes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from secondpass.blending import Blend
from secondpass.effects import Judgement, Method, Plan, Raised, Task
from secondpass.errors import ConfigurationError, MethodError, MissingExtraError
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


def to_method(value: object) -> Method:
    """The method that a scorer, a method, a name or a mapping with a ``type`` describes.

    Raises:
        ConfigurationError: it is none of these, or its settings are wrong.
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
        return value  # type: ignore[return-value]
    if callable(getattr(value, "score_pairs", None)):
        return ScorerMethod(value)  # type: ignore[arg-type]
    raise ConfigurationError(
        "give a scorer (an object with score_pairs), a name or a mapping with a 'type', "
        f"not {describe(value)}"
    )


def place_of(method: object, name: str) -> str | None:
    """Where in a configuration with this method a setting of that name stands, if it has one."""
    path = "method"
    described: Any = {"type": method} if isinstance(method, str) else method
    families: tuple[registry.Family, ...] = ("methods", "llms")
    for family in families:
        kind = described.get("type") if isinstance(described, Mapping) else None
        if not isinstance(kind, str) or kind not in registry.names(family):
            return None
        try:
            fields = model_of(registry.kind(family, kind)).model_fields
        except ConfigurationError:  # of another package, which cannot be loaded
            return None
        if name in fields:
            return f"{path}.{name}"
        path, described = f"{path}.llm", described.get("llm")
    return None


def judged(method: Method, task: Task) -> Plan[Judgement]:
    """The method's judgement, which is believed only if it can be laid beside the task.

    Raises:
        MethodError: the method raised anything, or its answer cannot be used.
    """
    raised: BaseException | None
    try:
        judgement = yield from method.judge(task)
        _check(judgement, len(task.texts))
    except MethodError as error:
        failure, raised = error, error.__cause__
    except Exception as error:
        # A method of your own may raise anything, and quote anything.
        failure = MethodError(f"it raised {type(error).__name__}", "method_failed")
        raised = error
    else:
        return judgement
    if raised is not None:
        yield Raised(raised, "the method")
    raise failure


def inner(method: Method) -> Any:
    """The object that the caller or the configuration gave: the scorer, where it is one."""
    return method.scorer if isinstance(method, ScorerMethod) else method


def check_installed(method: Method) -> MissingExtraError | None:
    """The error that the first use of ``method`` would meet for want of a package, if any."""
    check = getattr(inner(method), "check_installed", None)
    try:
        if check is not None:
            check()
    except MissingExtraError as error:
        return error
    return None


METHOD = Nested(to_method, lambda: definition("method"))


@configurable
@dataclass(frozen=True)
class Stage:
    """A method, and how its scores become final scores.

    A reranker has one of its own, and one for each fallback. In a configuration the settings of a
    fallback's method and these stand side by side, as in ``{type: embedded, floor: 0.1}``.

    Attributes:
        method: a scorer or another method.
        blend: how the retriever's score goes into the final score; None takes the method's alone.
        floor: scored items whose final score is lower are dropped.
    """

    method: Annotated[Any, METHOD]
    blend: Annotated[Blend | None, nested(Blend, optional=True)] = None
    floor: float | None = None

    def __post_init__(self) -> None:
        if self.blend is None:
            return
        try:
            self.blend.check(self.method.score_kind)
        except ConfigurationError as error:
            inside = [problem.under(("blend",)) for problem in error.problems]
            raise ConfigurationError(inside) from None

    @property
    def depends_on_kind(self) -> bool:
        """Whether scores of another kind than the method's would make other final scores.

        Blends by rank or by the statistics of the list take every kind.
        """
        by_value = self.blend is not None and self.blend.normalize in {"none", "sigmoid"}
        return by_value or self.floor is not None

    def as_setting(self, where: str) -> dict[str, Any]:
        """The method's settings with these beside them."""
        return beside_as_setting(self, where)


def beside(cls: type, value: object) -> Any:
    """An object around a method, from one, or from settings that stand beside the method's own.

    Args:
        cls: a configurable class with a setting ``method``, such as :class:`Stage`.
        value: one of these, a mapping, or whatever :func:`to_method` takes.
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
    """The mapping that :func:`beside` makes ``instance`` from.

    Raises:
        NotSerializableError: its method has no registered name.
    """
    own = registry.dump_settings(instance, where)
    return {**own.pop("method"), **own}


STAGE = Nested(lambda value: beside(Stage, value), lambda: definition("stage"))

FALLBACK = OneOrMore(lambda: registry.bare_names(registry.schemas("methods")))


def _check(judgement: Judgement, count: int) -> None:
    """Refuse an answer that cannot be laid beside the texts it was asked for."""
    scores = judgement.scores
    if len(scores) != count:
        raise MethodError(f"the method gave {len(scores)} scores for {count} texts", "score_count")
    given = [score for score in scores if score is not None]
    if not given and len(judgement.beyond) < count:
        raise MethodError("the method judged nothing", "nothing_judged")
    if not all(type(score) is float and math.isfinite(score) for score in given):
        raise MethodError("the method gave scores that are no finite floats", "score_not_finite")
    if judgement.score_kind is not None:
        check_kind(judgement.score_kind)
    if judgement.stage_scores is not None and len(judgement.stage_scores) != count:
        raise MethodError("the method gave stage scores for other texts", "stage_score_count")
    if not all(0 <= at < count for issue in judgement.issues for at in issue.positions):
        raise MethodError("the method told of texts that it was not given", "unknown_position")

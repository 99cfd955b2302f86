"""Methods and stages: conversion from settings, and validated results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, SupportsIndex

from secondpass.blending import Blend
from secondpass.effects import Ended, Judgement, Method, Plan, Raised, Started, Task
from secondpass.errors import ConfigurationError, MethodError
from secondpass.runtime.floors import FLOOR, Floor
from secondpass.runtime.observers import observed
from secondpass.runtime.probabilities import Probabilities
from secondpass.scoring import ScorerMethod, check_kind, member, to_span
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
from secondpass.types import Issue, ScoreKind

INSTRUCTION_NOT_USED = "instruction_not_used"
"""Code of the issue of a method that takes no instruction, in a call that has one."""


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


def judged(method: Method, task: Task) -> Plan[Judgement]:
    """Run the method and validate its result.

    If the task has an instruction that the method does not take, an issue says so.

    Raises:
        MethodError: the method raised an exception, or its result is not usable.
    """
    return _judged_observed(method, task) if observed() else _judged(method, task)


def _judged_observed(method: Method, task: Task) -> Plan[Judgement]:
    started = yield Started(method.name, len(task.texts))
    try:
        judgement = yield from _judged(method, task)
    except MethodError as error:
        yield Ended(started, None, error.code)
        raise
    yield Ended(started, sum(score is not None for score in judgement.scores))
    return judgement


def _judged(method: Method, task: Task) -> Plan[Judgement]:
    cause: BaseException | None
    try:
        judgement = checked((yield from method.judge(task)), task)
    except MethodError as error:
        failure, cause = error, error.__cause__
    except Exception as error:
        # The message of a foreign exception may hold anything.
        failure = MethodError(f"it raised {type(error).__name__}", "method_failed")
        cause = error
    else:
        if task.instruction is None or member(method, "takes_instruction", False) is True:
            return judgement
        message = "the method takes no instruction, so that of this call had no effect"
        issue = Issue(INSTRUCTION_NOT_USED, message, (), (), method.name)
        return replace(judgement, issues=[*judgement.issues, issue])
    if cause is not None:
        yield Raised(cause, "the method")
    raise failure


def checked(judgement: Judgement, task: Task) -> Judgement:
    """Return what a method returned, without scores if it keeps the original order.

    Raises:
        MethodError: the result is not aligned with the texts of the task, or not well formed.
    """
    scores, count = judgement.scores, len(task.texts)
    if judgement.original is not None and not 0 <= judgement.original <= 1:
        raise MethodError(
            "the method's weight of the original order is not within 0 to 1", "original_invalid"
        )
    indices = {*judgement.unjudged, *judgement.beyond}
    indices.update(index for issue in judgement.issues for index in issue.positions)
    if not all(isinstance(index, SupportsIndex) and 0 <= index < count for index in indices):
        raise MethodError(
            f"the method returned positions that are not within 0 to {count - 1}",
            "unknown_position",
        )
    if judgement.original == 1:
        return Judgement([None] * count, frozenset(range(count)), judgement.issues, original=1.0)
    if len(scores) != count:
        raise MethodError(
            f"the method returned {len(scores)} scores for {count} texts", "score_count"
        )
    present = [score for score in scores if score is not None]
    if not present and len(judgement.beyond) < count:
        raise MethodError("the method judged nothing", "nothing_judged")
    if not all(type(score) is float and math.isfinite(score) for score in present):
        raise MethodError(
            "the method returned scores that are not finite floats", "score_not_finite"
        )
    if judgement.score_kind is not None:
        check_kind(judgement.score_kind)
    if judgement.stage_scores is not None and len(judgement.stage_scores) != count:
        raise MethodError(
            f"the method returned {len(judgement.stage_scores)} stage scores for {count} texts",
            "stage_score_count",
        )
    _check_parts(judgement, task)
    return judgement


def _check_parts(judgement: Judgement, task: Task) -> None:
    """Check the spans and spreads that a method returned.

    Raises:
        MethodError: they are not aligned with the texts of the task, or not well formed.
    """
    spans, spreads, count = judgement.spans, judgement.spreads, len(task.texts)
    if spans is not None:
        if len(spans) != count:
            message = f"the method returned {len(spans)} spans for {count} texts"
            raise MethodError(message, "span_invalid")
        for span, text in zip(spans, task.texts, strict=True):
            if span is not None and to_span(span, len(text)) != span:
                message = "a span of the method is not (start, stop) within its text"
                raise MethodError(message, "span_invalid")
    if spreads is not None:
        numbers = [spread for spread in spreads if spread is not None]
        valid = all(type(number) is float and 0 <= number < math.inf for number in numbers)
        if not valid or len(spreads) != count:
            message = "the method did not return a float of at least 0, or None, as each spread"
            raise MethodError(message, "spread_invalid")


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
        floor: threshold on the final score, or a Floor; scored items below it are dropped.
        probabilities: maps rerank scores to probabilities of relevance.
    """

    method: Annotated[Any, METHOD]
    blend: Annotated[Blend | None, nested(Blend, optional=True)] = None
    floor: Annotated[Floor | float | None, FLOOR] = None
    probabilities: Annotated[Probabilities | None, nested(Probabilities, optional=True)] = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            self.threshold.check(self.blend)
        if self.blend is None:
            return
        try:
            self.blend.check(self.method.score_kind)
        except ConfigurationError as error:
            problems = [problem.under(("blend",)) for problem in error.problems]
            raise ConfigurationError(problems) from None

    @cached_property
    def threshold(self) -> Floor | None:
        """The floor as a Floor."""
        return (
            self.floor if self.floor is None or isinstance(self.floor, Floor) else Floor(self.floor)
        )

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

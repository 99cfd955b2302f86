"""Methods and stages: made from settings, run, their results validated, and compared with fits."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, get_args

from secondpass.effects import Judgement, Method, Plan, Task
from secondpass.errors import (
    ConfigurationError,
    MethodError,
    NotSerializableError,
    Problem,
    reraise_exit,
)
from secondpass.ranking.blending import BLEND, Blend
from secondpass.ranking.floors import FLOOR, PROBABILITIES, Fit, Floor, Probabilities
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.scoring import (
    DOUBTFUL,
    ScorerMethod,
    check_kind,
    member,
    to_pieces,
    to_span,
)
from secondpass.settings import (
    Nested,
    OneOrMore,
    configurable,
    counted,
    definition,
    describe,
    from_mapping,
    hint_elsewhere,
    model_of,
    registry,
)
from secondpass.types import DegradedBy, EngineInfo, Issue, ScoreKind

INSTRUCTION_NOT_USED = "instruction_not_used"
"""Code of the issue of a method that takes no instruction, in a call that has one."""

_NOT_ENGLISH = "not_english"
"""Code of the issue of a list that is not English, by a method that reads English only."""


def judged(method: Method, task: Task) -> Plan[Judgement]:
    """Run the method and validate its result.

    If the task has an instruction that the method does not take, an issue says so.

    Raises:
        MethodError: the method raised an exception, or its result is not usable.
    """
    started = task.call.started(method, len(task.texts))
    cause: BaseException | None
    try:
        judgement = checked((yield from method.judge(task)), task)
    except MethodError as error:
        # Its frames hold what it is part of: a cycle would keep the texts and the model alive.
        failure, cause = error.with_traceback(None), error.__cause__
    except GeneratorExit:  # the plan is closed
        raise
    except BaseException as error:
        reraise_exit(error)
        # The message of a foreign exception may hold anything.
        failure = MethodError(f"it raised {type(error).__name__}", "method_failed")
        cause = error
    else:
        task.call.ended(started, judgement)
        if task.instruction is None or member(method, "takes_instruction", False) is True:
            return judgement
        message = "the method takes no instruction, so that of this call had no effect"
        issue = Issue(INSTRUCTION_NOT_USED, message, (), (), method.name)
        return replace(judgement, issues=[*judgement.issues, issue])
    if cause is not None:
        task.call.raised(cause, "the method")
    task.call.ended(started, failure)
    try:
        raise failure
    finally:
        del failure, cause  # this frame is one of those of its traceback


def checked(judgement: Judgement, task: Task) -> Judgement:
    """Return what a method returned, without scores if it keeps the original order.

    Raises:
        MethodError: the result is not aligned with the texts of the task, or not well formed.
    """
    scores, count = judgement.scores, len(task.texts)
    if judgement.original is not None and not 0 <= judgement.original <= 1:
        message = "the method's weight of the original order is not within 0 to 1"
        raise MethodError(message, "original_invalid")
    indices = {*judgement.unjudged, *judgement.beyond}
    indices.update(index for issue in judgement.issues for index in issue.positions)
    if not all(hasattr(type(index), "__index__") and 0 <= index < count for index in indices):
        message = f"the method returned positions that are not within 0 to {count - 1}"
        raise MethodError(message, "unknown_position")
    if judgement.original == 1:
        return Judgement([None] * count, frozenset(range(count)), judgement.issues, original=1.0)
    if len(scores) != count:
        message = (
            f"the method returned {counted(len(scores), 'score')} for {counted(count, 'text')}"
        )
        raise MethodError(message, "score_count")
    present = [score for score in scores if score is not None]
    if not present and len(judgement.beyond) < count:
        raise MethodError("the method judged nothing", "nothing_judged")
    if not _are_finite(present):
        message = "the method returned scores that are not finite floats"
        raise MethodError(message, "score_not_finite")
    if judgement.score_kind is not None:
        check_kind(judgement.score_kind)
    if judgement.stage_scores is not None and len(judgement.stage_scores) != count:
        message = (
            f"the method returned {counted(len(judgement.stage_scores), 'stage score')} for "
            f"{counted(count, 'text')}"
        )
        raise MethodError(message, "stage_score_count")
    if not {*judgement.degraded_by} <= {*get_args(DegradedBy)}:
        reasons = ", ".join(get_args(DegradedBy))
        message = f"the method's degraded_by has other values than {reasons}"
        raise MethodError(message, "degraded_by_invalid")
    _check_parts(judgement, task)
    return judgement


def reasons_of(judgement: Judgement) -> set[DegradedBy]:
    """Why a ranking by this judgement is ``degraded``; empty if it is not."""
    codes = {issue.code for issue in judgement.issues}
    reasons = {*judgement.degraded_by}
    if judgement.original:
        reasons.add("language" if _NOT_ENGLISH in codes else "original")
    if DOUBTFUL in codes:
        reasons.add("doubtful")
    return reasons


def _are_finite(scores: Iterable[object]) -> bool:
    return all(type(score) is float and math.isfinite(score) for score in scores)


def _check_parts(judgement: Judgement, task: Task) -> None:
    """Check the order scores, spans, spreads and pieces that a method returned."""
    spans, spreads, count = judgement.spans, judgement.spreads, len(task.texts)
    if (order := judgement.order_scores) is not None:
        known = [score is None for score in judgement.scores] == [score is None for score in order]
        if not known or not _are_finite(score for score in order if score is not None):
            message = "the method did not return a finite float to order each text with a score by"
            raise MethodError(message, "score_not_finite")
    if spans is not None:
        if len(spans) != count:
            message = (
                f"the method returned {counted(len(spans), 'span')} for {counted(count, 'text')}"
            )
            raise MethodError(message, "span_invalid")
        for span, text in zip(spans, task.texts, strict=True):
            if span is not None and to_span(span, len(text)) != span:
                message = "a span of the method is not (start, stop) within its text"
                raise MethodError(message, "span_invalid")
    if (pieces := judgement.pieces) is not None:
        read = [
            parts is None or to_pieces(parts, len(text)) is not None
            for parts, text in zip(pieces, task.texts, strict=False)
        ]
        if len(pieces) != count or not all(read):
            message = "pieces of the method are not (start, stop, score) in the order of their text"
            raise MethodError(message, "span_invalid")
    if spreads is not None:
        numbers = [spread for spread in spreads if spread is not None]
        if len(spreads) != count or not _are_finite(numbers) or min(numbers, default=0) < 0:
            message = "the method did not return a float of at least 0, or None, as each spread"
            raise MethodError(message, "spread_invalid")


def converted(part: Task, whole: Task, convert: Callable[[Judgement], Judgement]) -> Task:
    """A task of a method that runs in a method that judges ``whole``.

    Its interim judgements become those of the whole task.

    Args:
        part: the task of the inner method.
        whole: the task of the outer method.
        convert: converts a judgement of ``part`` into one of ``whole``.
    """
    if whole.call.relay is None:
        return part

    def relay(task: Task, judgement: Callable[[], Judgement]) -> Plan[None]:
        if task is heard:
            yield from whole.call.interim(whole, lambda: convert(checked(judgement(), heard)))

    heard = replace(part, call=whole.call.heard_by(relay))
    return heard


def to_method(value: object) -> Method:
    """Convert a scorer, a method, a name or a mapping with a ``type`` to a method."""
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, Mapping):
        value = registry.build("methods", value)
    message = "give a scorer (an object with score_pairs), a name or a mapping with a 'type'"
    own = any(hasattr(value, name) for name in ("judge", "score_pairs"))
    if not own and (hint := hint_elsewhere(value)):
        raise ConfigurationError(f"{message}, not {describe(value)}{hint}")
    if isinstance(value, type):
        raise ConfigurationError(f"give an instance of {value.__name__}, not the class")
    if callable(getattr(value, "judge", None)):
        if not isinstance(getattr(value, "name", None), str):
            raise ConfigurationError("a method needs a 'name', a string")
        check_kind(getattr(value, "score_kind", None))
        if not hasattr(value, "scale"):
            raise ConfigurationError("a method needs a 'scale': (lowest, highest), or None")
        windows = getattr(value, "windows", "one")
        if windows not in ("one", "each", "task"):
            message = (
                f"a method's 'windows' must be 'one', 'each' or 'task', not {describe(windows)}"
            )
            raise ConfigurationError(message)
        return value  # type: ignore[return-value]
    if callable(getattr(value, "score_pairs", None)):
        return ScorerMethod(value)  # type: ignore[arg-type]
    raise ConfigurationError(f"{message}, not {describe(value)}")


def place_of(method: object, name: str) -> str | None:
    """Return the path of a setting of this method in a configuration; None if it has none."""
    path = "method"
    settings: Any = {"type": method} if isinstance(method, str) else method
    for family in ("methods", "llms"):
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
        is_number = self.floor is not None and not isinstance(self.floor, Floor)
        return Floor(self.floor) if is_number else self.floor  # type: ignore[arg-type, return-value]

    @cached_property
    def threshold(self) -> Floor | None:
        """The setting ``floor`` as a Floor, with what it is compared with."""
        floor = self._as_floor()
        return None if floor is None else floor.resolved(self.blend)

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
    if isinstance(value, Mapping):
        own = {key: value[key] for key in model_of(cls).model_fields if key in value}
        rest = {key: item for key, item in value.items() if key not in own}
        if "method" in own:
            return from_mapping(cls, {**own, **rest})
        value = rest
    return from_mapping(cls, {**own, "method": to_method(value)})


def beside_as_setting(instance: Any, where: str) -> dict[str, Any]:
    """Return the mapping that :func:`beside` converts to ``instance``."""
    own = registry.dump_settings(instance, where)
    return {**own.pop("method"), **own}


STAGE = Nested(lambda value: beside(Stage, value), lambda: definition("stage"))

FALLBACK = OneOrMore(lambda: registry.bare_names(registry.schemas("methods")))


# ---------------------------------------------------------------------- fits

_HASH_DIGITS = 12

_OPERATIONAL = frozenset(
    {
        *("api_key", "api_key_env", "base_url", "headers", "path", "timeout", "token", "token_env"),
        *("backend", "batch_size", "device", "threads", "remember", "score_cache", "precision"),
        *("memory_mb", "store"),
        *("cache_folder", "local_files_only", "trust_remote_code", "known_answers"),
        *("max_tokens", "prices"),
        *("llm", "model", "prompt"),
    }
)
"""Settings that are not hashed: scores do not depend on them, or other parts of a fit have them.

A reply that ``max_tokens`` cuts off scores fewer candidates, with the same scores. But the prompt
depends on ``context_window``, and the form of the reply on ``structured``, so both are hashed.
"""

_PARTS = {"model": "another model", "template": "another template", "settings": "other settings"}


def identity(
    method: Any, blend: Blend | None, depth: int | None, render: Rendering, passages: object
) -> dict[str, Any]:
    """What the scores of a method depend on, as settings of a :class:`Fit`.

    Its settings are not known, and None, if the method has no registered name.
    """
    inner = getattr(method, "scorer", method)
    models = (
        getattr(owner, attribute, None)
        for owner in (getattr(inner, "llm", None), inner)
        for attribute in ("model", "model_name")
    )
    found = {
        "method": registry.name_of("methods", inner) or method.name,
        "model": next((str(name) for name in models if isinstance(name, str)), None),
        "template": None,
        "settings": None,
        "blend": blend,
        "depth": depth,
    }
    try:
        settings = registry.dump_part(inner, "method")
        rendering = registry.dump_settings(render, "render")
        windows = None if passages is None else registry.dump_part(passages, "passages")
    except NotSerializableError:
        return found
    templates = _templates(getattr(inner, "prompting", None))
    found["template"] = _hash([templates, settings.get("prompt"), rendering])
    found["settings"] = _hash([_effective(settings), windows])
    return found


def check_fits(
    stages: Sequence[Stage], depth: int | None, render: Rendering, passages: object
) -> None:
    """Raise a ConfigurationError about fits that are not for the present settings of stages."""
    problems: list[Problem] = []
    for number, stage in enumerate(stages):
        place: tuple[str | int, ...] = () if number == 0 else ("fallback", number - 1)
        for name, fit, on_final in _fits(stage):
            blend = stage.blend if on_final else None
            actual = identity(stage.method, blend, depth, render, passages)
            problems += [
                Problem((*place, name, "fitted", part), message)
                for part, message in _differences(fit, actual)
            ]
    if problems:
        raise ConfigurationError(problems)


def doubts(
    stage: Stage, depth: int | None, instruction: str | None, engines: Sequence[EngineInfo]
) -> str | None:
    """How one ranking differs from what its stage was fitted on; None if it does not."""
    parts: list[str] = []
    for _, fit, _ in _fits(stage):
        if fit.depth != depth:
            parts.append(f"depth {_shown(fit.depth)}, not {_shown(depth)}")
        if instruction is not None and member(stage.method, "takes_instruction", False) is True:
            parts.append("no instruction of the call")
        actual = precision_of(stage.method, engines)
        if None not in {fit.precision, actual} and fit.precision != actual:
            parts.append(f"precision {fit.precision}, not {actual}")
    return f"was fitted for {' and '.join(dict.fromkeys(parts))}" if parts else None


def precision_of(method: Any, engines: Sequence[EngineInfo]) -> str | None:
    """The precision in which the model of a method ran; None if it has no engine."""
    precisions = dict.fromkeys(item.precision for item in engines if item.method == method.name)
    return ", ".join(precisions) or None


def _fits(stage: Stage) -> Iterator[tuple[str, Fit, bool]]:
    """The setting of each fit of a stage, and whether it is for final scores."""
    floor, probabilities = stage.threshold, stage.probabilities
    if floor is not None and floor.fitted is not None:
        yield "floor", floor.fitted, floor.on == "final"
    if probabilities is not None and probabilities.fitted is not None:
        yield "probabilities", probabilities.fitted, False


def _differences(fit: Fit, actual: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    remedy = "fit it again, or remove 'fitted'"
    if fit.method != actual["method"]:
        yield "method", f"was fitted for {fit.method!r}, not {actual['method']!r}; {remedy}"
        return
    for name in ("model", "template", "settings"):
        before, now = getattr(fit, name), actual[name]
        unknown = now is None and name != "model"
        if before is not None and not unknown and before != now:
            shown = f", {before!r}" if name == "model" else ""
            yield name, f"was fitted for {_PARTS[name]}{shown}; {remedy}"
    if fit.blend != actual["blend"]:
        yield "blend", f"was fitted for another blend of the final scores; {remedy}"
    if fit.depth != actual["depth"]:
        before, now = _shown(fit.depth), _shown(actual["depth"])
        yield "depth", f"was fitted for depth {before}, not {now}; {remedy}"


def _effective(settings: Mapping[str, Any]) -> Any:
    """The settings that scores depend on, including those of a nested model."""
    kept = {name: value for name, value in settings.items() if name not in _OPERATIONAL}
    if isinstance(llm := settings.get("llm"), Mapping):
        kept["llm"] = _effective(llm)
        kept["batch_size"] = settings.get("batch_size")  # which candidates share a prompt
    elif not isinstance(settings.get("model"), str):
        # Only the address identifies a served model without a name.
        kept |= {name: settings[name] for name in ("base_url", "path") if name in settings}
    return kept


def _templates(prompting: Any) -> list[str] | None:
    """The templates of the prompts, with defaults filled in."""
    if prompting is None:
        return None
    parts = [getattr(prompting, name, None) for name in ("instruction", "system", "user")]
    return [part if isinstance(part, str) else type(part).__name__ for part in parts]


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_HASH_DIGITS]


def _shown(depth: int | None) -> str:
    return "all" if depth is None else str(depth)


def asks(method: Method) -> bool:
    """Whether a method asks a language model, as it states by ``language_models``."""
    return bool(getattr(method, "language_models", ()))

"""Compares what a setting was fitted on with the present settings, and with one ranking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.ranking.blending import Blend
from secondpass.ranking.floors import Fit
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.scoring import member
from secondpass.ranking.stages import Stage
from secondpass.settings import registry
from secondpass.types import EngineInfo

_HASH_DIGITS = 12

_CONNECTION = frozenset(
    {"api_key", "api_key_env", "base_url", "headers", "path", "timeout", "token", "token_env"}
)
_COMPUTING = frozenset({"backend", "batch_size", "device", "threads", "memory_mb", "precision"})
_STORING = frozenset({"remember", "score_cache", "store"})
_LOADING = frozenset({"cache_folder", "local_files_only", "trust_remote_code", "known_answers"})
_SPENDING = frozenset({"max_tokens", "prices"})
_ELSEWHERE_IN_FIT = frozenset({"llm", "model", "prompt"})

_NOT_HASHED = _CONNECTION | _COMPUTING | _STORING | _LOADING | _SPENDING | _ELSEWHERE_IN_FIT
"""Settings that are not hashed: scores do not depend on them, or other parts of a fit have them.

A reply that ``max_tokens`` cuts off scores fewer candidates, with the same scores. But the prompt
depends on ``context_window``, and the form of the reply on ``structured``, so both are hashed.
"""


def identity(
    method: Any, blend: Blend | None, depth: int | None, render: Rendering, passages: object
) -> dict[str, Any]:
    """What the scores of a method depend on, as settings of a :class:`Fit`.

    Its settings are not known, and None, if the method has no registered name.
    """
    from secondpass.settings.environment import by_value  # for fits only

    inner = getattr(method, "scorer", method)
    found = {
        "method": registry.name_of("methods", type(inner)) or method.name,
        "model": _model_name(inner),
        "template": None,
        "settings": None,
        "blend": blend,
        "depth": depth,
    }
    try:
        settings = by_value(registry.dump_part(inner, "method"))
        rendering = by_value(registry.dump_settings(render, "render"))
        windows = None if passages is None else by_value(registry.dump_part(passages, "passages"))
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
        for setting, fit in stage.fits.items():
            actual = identity(stage.method, _fitted_blend(stage, setting), depth, render, passages)
            for part, message in _differences(fit, actual):
                problems.append(Problem((*place, setting, "fitted", part), message))
    if problems:
        raise ConfigurationError(problems)


def _fitted_blend(stage: Stage, setting: str) -> Blend | None:
    """The blend that a fit of this setting depends on: only thresholds on final scores do."""
    threshold = stage.threshold
    is_on_final = setting == "floor" and threshold is not None and threshold.on == "final"
    return stage.blend if is_on_final else None


def doubts(
    stage: Stage, depth: int | None, instruction: str | None, engines: Sequence[EngineInfo]
) -> str | None:
    """How one ranking differs from what its stage was fitted on; None if it does not."""
    differences: list[str] = []
    precision = precision_of(stage.method, engines)
    for fit in stage.fits.values():
        if fit.depth != depth:
            differences.append(f"depth {_depth_text(fit.depth)}, not {_depth_text(depth)}")
        if instruction is not None and member(stage.method, "takes_instruction", False) is True:
            differences.append("no instruction of the call")
        are_known = fit.precision is not None and precision is not None
        if are_known and fit.precision != precision:
            differences.append(f"precision {fit.precision}, not {precision}")
    if not differences:
        return None
    # Both settings of a stage may differ in the same way.
    return f"was fitted for {' and '.join(dict.fromkeys(differences))}"


def precision_of(method: Any, engines: Sequence[EngineInfo]) -> str | None:
    """The precision in which the model of a method ran; None if it has no engine."""
    precisions = dict.fromkeys(item.precision for item in engines if item.method == method.name)
    return ", ".join(precisions) or None


def _differences(fit: Fit, actual: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts of a fit that differ from the present settings, each with a message."""
    remedy = "fit it again, or remove 'fitted'"
    if fit.method != actual["method"]:
        yield "method", f"was fitted for {fit.method!r}, not {actual['method']!r}; {remedy}"
        return
    if fit.model is not None and fit.model != actual["model"]:
        yield "model", f"was fitted for another model, {fit.model!r}; {remedy}"
    if _are_different_hashes(fit.template, actual["template"]):
        yield "template", f"was fitted for another template; {remedy}"
    if _are_different_hashes(fit.settings, actual["settings"]):
        yield "settings", f"was fitted for other settings; {remedy}"
    if fit.blend != actual["blend"]:
        yield "blend", f"was fitted for another blend of the final scores; {remedy}"
    if fit.depth != actual["depth"]:
        fitted, now = _depth_text(fit.depth), _depth_text(actual["depth"])
        yield "depth", f"was fitted for depth {fitted}, not {now}; {remedy}"


def _are_different_hashes(fitted: str | None, now: str | None) -> bool:
    """Whether two hashes are known and differ."""
    return fitted is not None and now is not None and fitted != now


def _model_name(method: object) -> str | None:
    """The name of the language model that a method asks, or of its own model; None without one."""
    for owner in (getattr(method, "llm", None), method):
        for attribute in ("model", "model_name"):
            name = getattr(owner, attribute, None)
            if isinstance(name, str):
                return str(name)
    return None


def _effective(settings: Mapping[str, Any]) -> Any:
    """The settings that scores depend on, including those of a nested model."""
    kept = {name: value for name, value in settings.items() if name not in _NOT_HASHED}
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


def _depth_text(depth: int | None) -> str:
    return "all" if depth is None else str(depth)

"""What the scores of a method depend on, and whether a fit was made for the same scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from secondpass.blending import Blend
from secondpass.errors import ConfigurationError, NotSerializableError, Problem
from secondpass.rendering import Rendering
from secondpass.runtime.floors import Fit, Floor
from secondpass.runtime.probabilities import Probabilities
from secondpass.scoring import member
from secondpass.settings import registry
from secondpass.types import EngineInfo

_HASH_DIGITS = 12

_OPERATIONAL = frozenset(
    {
        *("api_key", "api_key_env", "base_url", "headers", "path", "timeout", "token", "token_env"),
        *("backend", "batch_size", "device", "threads", "remember", "score_cache", "precision"),
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


class Fitted(Protocol):
    """A stage: a method, a blend, a threshold and probabilities."""

    @property
    def method(self) -> Any: ...
    @property
    def blend(self) -> Blend | None: ...
    @property
    def threshold(self) -> Floor | None: ...
    @property
    def probabilities(self) -> Probabilities | None: ...


def identity(
    method: Any, blend: Blend | None, depth: int | None, render: Rendering, passages: object
) -> dict[str, Any]:
    """What the scores of a method depend on, as settings of a :class:`Fit`.

    ``settings`` is None if the method has no registered name: its settings are not known.
    """
    inner = getattr(method, "scorer", method)
    try:
        settings: Any = registry.dump_part(inner, "method")
        around: list[Any] = [registry.dump_settings(render, "render")]
        around.append(None if passages is None else registry.dump_part(passages, "passages"))
    except NotSerializableError:
        settings, around = None, []
    llm = getattr(inner, "llm", None)
    model = next(
        (
            str(name)
            for owner in (llm, inner)
            for attribute in ("model", "model_name")
            if isinstance(name := getattr(owner, attribute, None), str)
        ),
        None,
    )
    prompting = getattr(inner, "prompting", None)
    template = None
    if settings is not None:
        template = _hash([_templates(prompting), settings.get("prompt"), around[0]])
    return {
        "method": registry.name_of("methods", inner) or method.name,
        "model": model,
        "template": template,
        "settings": None if settings is None else _hash([_effective(settings), around[1]]),
        "blend": blend,
        "depth": depth,
    }


def check_fits(
    stages: Sequence[Fitted], depth: int | None, render: Rendering, passages: object
) -> None:
    """Check that the fits of stages are for their present methods and settings.

    Raises:
        ConfigurationError: a fit is for something else, with the place of each difference.
    """
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
    stage: Fitted, depth: int | None, instruction: str | None, engines: Sequence[EngineInfo]
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


def _fits(stage: Fitted) -> Iterator[tuple[str, Fit, bool]]:
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
    if not isinstance(settings.get("model"), str) and not isinstance(llm, Mapping):
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

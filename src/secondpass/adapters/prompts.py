"""The prompts of a reranker's methods by name, for frameworks that show and change prompts.

A method that asks a language model has three: ``system_prompt``, ``user_prompt`` and
``instruction_prompt``, which is part of the user prompt. For the stages of a cascade and for
fallbacks, the names begin with ``stage_0_``, ``fallback_0_`` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from secondpass.errors import ConfigurationError, Problem
from secondpass.prompts.template import FrameworkPrompt, Prompting
from secondpass.reranker import Reranker
from secondpass.settings import changed, suggestion

_PARTS = ("system", "user", "instruction")


def prompts_of(reranker: Reranker) -> dict[str, Any]:
    """The prompts by name: a text, a prompt object of a framework, or a function.

    Methods have their defaults.
    """
    prompts = {}
    for prefix, prompting in _promptings(reranker):
        for part in _PARTS:
            template = getattr(prompting, part)
            prompt = template.prompt if isinstance(template, FrameworkPrompt) else template
            prompts[f"{prefix}{part}_prompt"] = prompt
    return prompts


def with_prompts(reranker: Reranker, prompts: Mapping[str, Any]) -> Reranker:
    """A copy of the reranker whose methods use other prompts.

    Args:
        reranker: the reranker. It is returned if there are no prompts.
        prompts: by the names of :func:`prompts_of`.

    Raises:
        ConfigurationError: no prompt has a name, or one is no template.
    """
    if not prompts:
        return reranker
    known = [f"{prefix}{part}_prompt" for prefix, _ in _promptings(reranker) for part in _PARTS]
    if wrong := [name for name in prompts if name not in known]:
        message = "no prompt has this name" + suggestion(wrong[0], known)
        raise ConfigurationError([Problem((wrong[0],), message)])
    return changed(
        reranker,
        method=_reworded(reranker.method, "", prompts),
        fallback=_reworded_stages(reranker.fallback, "fallback", prompts),
    )


def _promptings(reranker: Reranker) -> Iterator[tuple[str, Prompting]]:
    yield from _promptings_of(reranker.method, "")
    for index, stage in enumerate(reranker.fallback):
        yield from _promptings_of(stage.method, f"fallback_{index}_")


def _promptings_of(method: Any, prefix: str) -> Iterator[tuple[str, Prompting]]:
    prompting = getattr(method, "prompting", None)
    if isinstance(prompting, Prompting):
        yield prefix, prompting
    for index, stage in enumerate(getattr(method, "stages", ())):
        yield from _promptings_of(stage.method, f"{prefix}stage_{index}_")


def _reworded(method: Any, prefix: str, prompts: Mapping[str, Any]) -> Any:
    """The method, with those of the prompts whose names begin with the prefix."""
    names = {f"{prefix}{part}_prompt": part for part in _PARTS}
    parts = {names[name]: prompt for name, prompt in prompts.items() if name in names}
    if parts:
        return changed(method, prompt=changed(method.prompt, **parts))
    if stages := getattr(method, "stages", ()):
        return changed(method, stages=_reworded_stages(stages, f"{prefix}stage", prompts))
    return method


def _reworded_stages(stages: Sequence[Any], prefix: str, prompts: Mapping[str, Any]) -> list[Any]:
    return [
        changed(stage, method=_reworded(stage.method, f"{prefix}_{index}_", prompts))
        for index, stage in enumerate(stages)
    ]

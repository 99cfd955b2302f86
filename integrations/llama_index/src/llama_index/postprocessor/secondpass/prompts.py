"""The prompts of a reranker's methods, for LlamaIndex's ``get_prompts`` and ``update_prompts``.

A method that asks a language model has three: ``system_prompt``, ``user_prompt`` and
``instruction_prompt``, which is part of the user prompt. The names of those of a cascade's stages
and of fallbacks begin with ``stage_0_``, ``fallback_0_`` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.prompts import BasePromptTemplate, PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType

from secondpass import ConfigurationError, Reranker
from secondpass.errors import Problem
from secondpass.prompts.template import PLACEHOLDERS, Prompting, Rendered
from secondpass.settings import changed, suggestion

_PARTS = ("system", "user", "instruction")


def prompts_of(reranker: Reranker) -> PromptDictType:
    """The prompts by name, including the methods' defaults."""
    prompts: PromptDictType = {}
    for prefix, prompting in _promptings(reranker):
        for part in _PARTS:
            template = getattr(prompting, part)
            if isinstance(template, Rendered):
                template = template.prompt
            if isinstance(template, str):
                template = PromptTemplate(template)
            if isinstance(template, BasePromptTemplate):
                prompts[f"{prefix}{part}_prompt"] = template
    return prompts


def with_prompts(reranker: Reranker, prompts: Mapping[str, object]) -> Reranker:
    """A copy of the reranker whose methods use other prompts."""
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


def _reworded(method: Any, prefix: str, prompts: Mapping[str, object]) -> Any:
    """The method, with those of the prompts whose names begin with the prefix."""
    names = {f"{prefix}{part}_prompt": part for part in _PARTS}
    parts = {names[name]: _template(name, prompts[name]) for name in prompts if name in names}
    if parts:
        return changed(method, prompt=changed(method.prompt, **parts))
    if stages := getattr(method, "stages", ()):
        return changed(method, stages=_reworded_stages(stages, f"{prefix}stage", prompts))
    return method


def _reworded_stages(
    stages: Sequence[Any], prefix: str, prompts: Mapping[str, object]
) -> list[Any]:
    return [
        changed(stage, method=_reworded(stage.method, f"{prefix}_{index}_", prompts))
        for index, stage in enumerate(stages)
    ]


def _template(name: str, prompt: object) -> object:
    """The text of a plain template, which a configuration can hold; otherwise the template."""
    if not isinstance(prompt, BasePromptTemplate):
        return prompt
    aliases = {alias: name for name, alias in (prompt.template_var_mappings or {}).items()}
    used = {aliases.get(name, name) for name in prompt.template_vars}
    used -= {*prompt.kwargs, *(prompt.function_mappings or ())}
    if unknown := sorted(used - PLACEHOLDERS):
        hint = suggestion(unknown[0], sorted(PLACEHOLDERS))
        message = f"has no placeholder {unknown[0]!r}{hint}"
        raise ConfigurationError([Problem((name,), message)])
    computed = (
        prompt.kwargs
        or prompt.template_var_mappings
        or prompt.function_mappings
        or prompt.output_parser
    )
    return prompt.template if isinstance(prompt, PromptTemplate) and not computed else prompt

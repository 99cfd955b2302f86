"""The prompts of a reranker's methods, as LlamaIndex gets and updates them.

A method that asks a language model has three: ``system_prompt``, ``user_prompt`` and
``instruction_prompt``, which stands within the user's. Those of a cascade's stages and of fallbacks
have ``stage_0_``, ``fallback_0_`` and so on before their names.
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
    """The prompts by name, those that were left to the methods too."""
    found: PromptDictType = {}
    for prefix, wording in _wordings(reranker):
        for part in _PARTS:
            template = getattr(wording, part)
            if isinstance(template, Rendered):
                template = template.prompt
            if isinstance(template, str):
                template = PromptTemplate(template)
            if isinstance(template, BasePromptTemplate):
                found[f"{prefix}{part}_prompt"] = template
    return found


def with_prompts(reranker: Reranker, prompts: Mapping[str, object]) -> Reranker:
    """A reranker like this one whose methods use other prompts.

    Raises:
        ConfigurationError: no method has a prompt of that name, or a template is wrong.
    """
    known = [f"{prefix}{part}_prompt" for prefix, _ in _wordings(reranker) for part in _PARTS]
    if wrong := [name for name in prompts if name not in known]:
        told = "no prompt has this name" + suggestion(wrong[0], known)
        raise ConfigurationError([Problem((wrong[0],), told)])
    return changed(
        reranker,
        method=_reworded(reranker.method, "", prompts),
        fallback=_reworded_stages(reranker.fallback, "fallback", prompts),
    )


def _wordings(reranker: Reranker) -> Iterator[tuple[str, Prompting]]:
    yield from _wordings_of(reranker.method, "")
    for at, stage in enumerate(reranker.fallback):
        yield from _wordings_of(stage.method, f"fallback_{at}_")


def _wordings_of(method: Any, prefix: str) -> Iterator[tuple[str, Prompting]]:
    wording = getattr(method, "wording", None)
    if isinstance(wording, Prompting):
        yield prefix, wording
    for at, stage in enumerate(getattr(method, "stages", ())):
        yield from _wordings_of(stage.method, f"{prefix}stage_{at}_")


def _reworded(method: Any, prefix: str, prompts: Mapping[str, object]) -> Any:
    """The method, or one like it that has those prompts whose names begin with the prefix."""
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
        changed(stage, method=_reworded(stage.method, f"{prefix}_{at}_", prompts))
        for at, stage in enumerate(stages)
    ]


def _template(name: str, prompt: object) -> object:
    """A template that holds nothing but its text as that text, which a configuration can hold.

    Raises:
        ConfigurationError: it needs values that there are not.
    """
    if not isinstance(prompt, BasePromptTemplate):
        return prompt
    outer = {own: given for given, own in (prompt.template_var_mappings or {}).items()}
    wanted = {outer.get(own, own) for own in prompt.template_vars}
    wanted -= {*prompt.kwargs, *(prompt.function_mappings or ())}
    told = ""
    if unknown := sorted(wanted - PLACEHOLDERS):
        told = f"has no placeholder {unknown[0]!r}{suggestion(unknown[0], sorted(PLACEHOLDERS))}"
    needed = {"query", "documents"} if name.endswith("user_prompt") else set()
    if not told and not wanted >= needed and not prompt.function_mappings:
        told = "has to hold {query} and {documents}"
    if told:
        raise ConfigurationError([Problem((name,), told)])
    changed_on_the_way = (
        prompt.kwargs
        or prompt.template_var_mappings
        or prompt.function_mappings
        or prompt.output_parser
    )
    if isinstance(prompt, PromptTemplate) and not changed_on_the_way:
        return prompt.template
    return prompt

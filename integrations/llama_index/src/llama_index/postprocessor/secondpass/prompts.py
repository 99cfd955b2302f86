"""The prompts of the methods as LlamaIndex's prompt objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.prompts import BasePromptTemplate, PromptTemplate
from llama_index.core.prompts.mixin import PromptDictType

from secondpass import ConfigurationError, NotSerializableError, Problem, Reranker
from secondpass.adapters import PLACEHOLDERS, prompts_of, unknown_placeholder


def prompt_objects(reranker: Reranker) -> PromptDictType:
    """The prompts by name, including the methods' defaults, but not functions."""
    prompts = {
        name: PromptTemplate(prompt) if isinstance(prompt, str) else prompt
        for name, prompt in prompts_of(reranker).items()
    }
    return {
        name: prompt for name, prompt in prompts.items() if isinstance(prompt, BasePromptTemplate)
    }


def templates(prompts: Mapping[str, Any]) -> dict[str, Any]:
    """The texts of plain templates, which can be saved; other templates as they are."""
    return {name: _template(name, prompt) for name, prompt in prompts.items()}


def _template(name: str, prompt: object) -> object:
    if not isinstance(prompt, BasePromptTemplate):
        return prompt
    aliases = {alias: own for own, alias in (prompt.template_var_mappings or {}).items()}
    used = {aliases.get(variable, variable) for variable in prompt.template_vars}
    used -= {*prompt.kwargs, *(prompt.function_mappings or ())}
    if unknown := sorted(used - PLACEHOLDERS):
        raise ConfigurationError([Problem((name,), unknown_placeholder(unknown[0]))])
    computed = (
        prompt.kwargs
        or prompt.template_var_mappings
        or prompt.function_mappings
        or prompt.output_parser
    )
    return prompt.template if isinstance(prompt, PromptTemplate) and not computed else prompt


def saved_prompts(prompts: Mapping[str, str | BasePromptTemplate]) -> dict[str, str]:
    """The prompts for YAML and JSON.

    Raises:
        NotSerializableError: one is no plain text.
    """
    texts = {name: prompt for name, prompt in prompts.items() if isinstance(prompt, str)}
    message = "is computed, so it cannot be written out; pass it to from_json again"
    if problems := [Problem((name,), message) for name in prompts if name not in texts]:
        raise NotSerializableError(problems)
    return texts

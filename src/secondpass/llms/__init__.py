"""Language models: each answers one prompt, and knows nothing of rankings.

One file per provider. Others can be added: a subclass of
:class:`~secondpass.llms.provider.Provider`, registered by entry point in the group
``secondpass.llms``; in Python, any object with ``name`` and ``async complete(prompt)``, or a
function (:class:`~secondpass.llms.function.CallableLLM`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from secondpass.errors import ConfigurationError
from secondpass.limits import Prices
from secondpass.questions import LLM, Completion, Prompt, Turn
from secondpass.settings import Nested, definition, describe, registry
from secondpass.settings.name_hints import in_words, llm_hint, llm_named

__all__ = [
    "EXAMPLE",
    "LLM",
    "LLM_SETTING",
    "Completion",
    "LLMLike",
    "Prices",
    "Prompt",
    "Turn",
    "has_logprobs",
    "to_llm",
]


EXAMPLE = {"type": "openai", "model": "gpt-4o"}
"""For messages about a language model that is not given, or not as it must be."""


def to_llm(value: object) -> LLM:
    """The language model for an object, a function, or a mapping with a ``type``.

    Raises:
        ConfigurationError: it is none of these, or its settings are invalid.
    """
    if value is None:
        raise ConfigurationError("is required: a mapping with a 'type', an object or a function")
    if isinstance(value, Mapping):
        value = registry.build("llms", value, llm_hint)
    if isinstance(value, type):
        raise ConfigurationError(f"give an instance of {value.__name__}, not the class")
    if (hint := _of_framework(value)) is not None:
        raise ConfigurationError(f"is {hint}")
    if callable(getattr(value, "complete", None)):
        if not isinstance(getattr(value, "name", None), str):
            raise ConfigurationError("a language model needs a 'name', a string")
        return value  # type: ignore[return-value]
    if callable(value):
        from secondpass.llms.function import CallableLLM

        return CallableLLM(value)
    example = in_words((isinstance(value, str) and llm_named(value)) or EXAMPLE)
    raise ConfigurationError(
        f"give a mapping such as {example}, an object with 'name' and 'complete', or a function, "
        f"not {describe(value)}"
    )


_FRAMEWORKS = {
    "llama_index": "an LLM of LlamaIndex: use SecondPassRerank({'method': …}, llm=…) of "
    "llama_index.postprocessor.secondpass",
    "haystack": "a generator of Haystack: use SecondPassRanker({'method': …}, chat_generator=…) of "
    "haystack_integrations.components.rankers.secondpass",
    "haystack_integrations": "a generator of Haystack: use SecondPassRanker({'method': …}, "
    "chat_generator=…) of haystack_integrations.components.rankers.secondpass",
    "langchain_core": "a model of LangChain: give a function, "
    "lambda messages: model.invoke(messages).text",
}
"""Package of a framework -> what its language models are, and what to write."""


def _of_framework(value: object) -> str | None:
    """What a language model of a framework is, and what to write; None for another value.

    What has a ``name`` and an asynchronous ``complete``, as language models here have, is none.
    """
    if isinstance(getattr(value, "name", None), str) and callable(getattr(value, "complete", None)):
        return None
    if not any(callable(getattr(value, name, None)) for name in ("complete", "run", "invoke")):
        return None
    packages = (cls.__module__.partition(".")[0] for cls in type(value).__mro__)
    return next((_FRAMEWORKS[package] for package in packages if package in _FRAMEWORKS), None)


def has_logprobs(llm: LLM) -> bool:
    """Whether a language model returns the log probabilities that a prompt asks for."""
    return getattr(llm, "has_logprobs", False) is True


LLMLike: TypeAlias = LLM | Mapping[str, Any] | Callable[..., Any]
"""What :func:`to_llm` takes."""

LLM_SETTING = Nested(to_llm, lambda: definition("llm"))

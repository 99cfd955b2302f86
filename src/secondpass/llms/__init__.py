"""Language models: each answers one prompt, and knows nothing of rankings.

One file a provider. Another one is a class with the settings of
:class:`~secondpass.llms.provider.Provider` and three methods, registered by entry point in the
group ``secondpass.llms``; or any object with ``name`` and ``async complete(prompt)``, given in
Python; or just a function (:class:`~secondpass.llms.function.CallableLLM`).
"""

from __future__ import annotations

from collections.abc import Mapping

from secondpass.effects import LLM, Completion, Prompt, Turn
from secondpass.errors import ConfigurationError
from secondpass.limits import Prices
from secondpass.settings import Nested, definition, describe, registry

__all__ = ["LLM", "LLM_SETTING", "Completion", "Prices", "Prompt", "Turn", "to_llm"]


def to_llm(value: object) -> LLM:
    """The language model that an object, a function or a mapping with a ``type`` describes.

    Raises:
        ConfigurationError: it is none of these, or its settings are wrong.
    """
    if value is None:
        raise ConfigurationError("is required: a mapping with a 'type', an object or a function")
    if isinstance(value, Mapping):
        value = registry.build("llms", value)
    if isinstance(value, type):
        raise ConfigurationError(f"give an instance of {value.__name__}, not the class")
    if callable(getattr(value, "complete", None)):
        if not isinstance(getattr(value, "name", None), str):
            raise ConfigurationError("a language model needs a 'name', a string")
        return value  # type: ignore[return-value]
    if callable(value):
        from secondpass.llms.function import CallableLLM

        return CallableLLM(value)
    raise ConfigurationError(
        "give a mapping with a 'type', an object with 'name' and 'complete', or a function, "
        f"not {describe(value)}"
    )


LLM_SETTING = Nested(to_llm, lambda: definition("llm"))

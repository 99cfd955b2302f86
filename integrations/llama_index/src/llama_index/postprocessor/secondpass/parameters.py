"""Creates the Reranker that LlamaIndex's parameters describe, and keeps keys out of files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import SecretStr
from llama_index.core.llms import LLM

from llama_index.postprocessor.secondpass.llm import OwnedLLM
from secondpass import ConfigurationError, Reranker
from secondpass.adapters.parameters import Parameters
from secondpass.config import resolve
from secondpass.config.overrides import Override
from secondpass.errors import Problem, with_article
from secondpass.settings.registry import dump_part

ALIASES = {"top_n": "top_k", "similarity_cutoff": "floor", "choice_batch_size": "batch_size"}
"""LlamaIndex's names of parameters that adapters share."""
BESIDE_READY = {"top_n", "similarity_cutoff", "order"}
"""Parameters that can be used with a ready Reranker that does not set them."""


def overrides_of(parameters: Parameters, values: Mapping[str, Any]) -> dict[str, Override]:
    """The settings that the parameters override, without those that are passed with each call."""
    key = values["api_key"]
    if isinstance(key, SecretStr):
        key = key.get_secret_value()
    return parameters.overrides({**values, "api_key": key}, per_call=False)


def resolved(
    reranker: Reranker | Mapping[str, Any] | Path | str,
    parameters: Parameters,
    values: Mapping[str, Any],
) -> Reranker:
    """The Reranker that the parameters describe.

    Raises:
        ConfigurationError: a parameter is wrong, or its setting is set twice.
    """
    llm = values["llm"]
    if llm is not None and not isinstance(llm, LLM):
        message = f"give an LLM of LlamaIndex, not {with_article(type(llm).__name__)}"
        raise ConfigurationError([Problem(("llm",), message)])
    llm = None if llm is None else OwnedLLM(llm)
    return resolve(reranker, llm=llm, flat=overrides_of(parameters, values))


def written_order(order: object) -> object:
    """An ordering as plain values for YAML and JSON."""
    plain = order is None or isinstance(order, str | dict)
    return order if plain else dump_part(order, "order")


_KEY = re.compile(
    r"(api_?key|secret|password|credentials?|authorization|bearer|headers|(^|_)token)$", re.I
)


def holds_a_key(value: object) -> bool:
    """Whether a configuration, or the fields of an LLM, contain a key."""
    if isinstance(value, Mapping):
        keys = [held for name, held in value.items() if _KEY.search(str(name))]
        if any(isinstance(key, SecretStr | str | Mapping) and len(key) for key in keys):
            return True
        return any(map(holds_a_key, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_a_key, value))

"""The parameters of the postprocessor: checked, and as settings of a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import SecretStr
from llama_index.core.llms import LLM

from llama_index.postprocessor.secondpass.llm import LlamaIndexLLM
from secondpass import ConfigurationError, Reranker
from secondpass.config import resolve
from secondpass.config.overrides import Override, beside_ready, given
from secondpass.errors import InputError, Problem
from secondpass.ordering import to_ordering
from secondpass.settings import describe
from secondpass.settings.registry import dump_part

CALL_SETTINGS = {
    "top_n": "top_k",
    "depth": "depth",
    "dedupe": "dedupe",
    "similarity_cutoff": "floor",
    "order": "order",
}
"""What the core calls the settings that it is given with each call, so that they can be assigned
without loading models anew."""
PLACES = {
    "model": ("method.model", "method.llm.model"),
    "device": ("method.device",),
    "choice_batch_size": ("method.batch_size", "method.window"),
    "api_key": ("method.token", "method.api_key", "method.llm.api_key"),
    "strict": ("strict",),
}
"""Where in the configuration the others stand."""


def refuse_twice(reranker: object, name: str, value: object) -> None:
    """Refuse a setting for which there are two places, so that none silently wins."""
    core_name = CALL_SETTINGS[name]
    if value is None:
        return
    if isinstance(reranker, Reranker):
        if core_name in {"top_k", "floor", "order"} and getattr(reranker, core_name) is None:
            return
        raise ConfigurationError(beside_ready({name: Override(value, (core_name,))}))
    if isinstance(reranker, Mapping) and core_name in reranker:
        told = f"{core_name} in the configuration given as 'reranker' is the same; give one"
        raise ConfigurationError([Problem((name,), told)])


def flat_of(fields: Mapping[str, Any]) -> dict[str, Override]:
    key = fields["api_key"]
    if isinstance(key, SecretStr):
        key = key.get_secret_value()
    values = {**fields, "api_key": key}
    return given({name: Override.at(values[name], *places) for name, places in PLACES.items()})


def resolved(
    reranker: Reranker | Mapping[str, Any] | Path | str, fields: Mapping[str, Any], llm: LLM | None
) -> Reranker:
    if llm is not None and not isinstance(llm, LLM):
        told = f"give an LLM of LlamaIndex, not a {type(llm).__name__}"
        raise ConfigurationError([Problem(("llm",), told)])
    own = None if llm is None else _SavedApart(llm)
    return resolve(reranker, llm=own, flat=flat_of(fields))


class _SavedApart(LlamaIndexLLM):
    """The postprocessor keeps its LLM apart, so the configuration holds none."""

    def as_setting(self, _where: str) -> dict[str, Any] | None:
        return self.apart()


def check_order(reranker: Reranker, order: object) -> None:
    """Refuse an ordering that there is not."""
    try:
        to_ordering(order, reranker.orders)
    except ConfigurationError as error:
        problems = [Problem(("order", *one.path), one.message) for one in error.problems]
        raise ConfigurationError(problems) from None


def written_order(order: object) -> object:
    """An ordering as YAML and JSON can hold it."""
    plain = order is None or isinstance(order, str | dict)
    return order if plain else dump_part(order, "order")


def whole_number(name: str, value: object) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise InputError(f"{name}: give a whole number of 1 or more, not {describe(value)}")
    return value


_KEY = re.compile(
    r"(api_?key|secret|password|credentials?|authorization|bearer|headers|(^|_)token)$", re.I
)


def holds_a_key(value: object) -> bool:
    """Whether a configuration, or an LLM's fields, have a key in them."""
    if isinstance(value, Mapping):
        keys = [held for name, held in value.items() if _KEY.search(str(name))]
        if any(isinstance(key, SecretStr | str | Mapping) and len(key) for key in keys):
            return True
        return any(map(holds_a_key, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_a_key, value))

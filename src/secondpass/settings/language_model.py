"""Configurations in which a given language model takes the place of the configured ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import environment, model_of, registry
from secondpass.settings.environment import Unfilled


def with_llm(config: Mapping[str, Any], llm: Any) -> dict[str, Any]:
    """A configuration whose method and fallbacks ask ``llm``, wherever they ask a language model.

    Args:
        config: a configuration. Variables that it names are read.
        llm: the language model. A copy of it takes over the timeout of a model that it replaces.

    Raises:
        ConfigurationError: nothing in the configuration asks a language model.
    """
    values, _ = environment.fill(config)
    return replace_llm(values, llm)


def replace_llm(values: Mapping[str, Any], llm: Any) -> dict[str, Any]:
    """:func:`with_llm` for a configuration whose variables are read already.

    Raises:
        ConfigurationError: as for :func:`with_llm`; or the name of a method or a timeout is a
            variable that gives no value.
    """
    asking = False

    def replaced(part: Any) -> Any:
        nonlocal asking
        if isinstance(part, list | tuple):
            return [replaced(item) for item in part]
        if not isinstance(part, Mapping):
            if not _asks(part):
                return part
            part = {"type": part}
        changes = {key: replaced(part[key]) for key in ("stages", "method") if key in part}
        if _asks(part.get("type")):
            asking = True
            changes["llm"] = _with_timeout(llm, part.get("llm"))
        return {**part, **changes}

    changes: dict[str, Any] = {
        key: replaced(values[key]) for key in ("method", "fallback") if key in values
    }
    if not asking:
        names = ", ".join(name for name in registry.names("methods") if _asks(name))
        message = f"a language model is given, and no method asks one; these do: {names}"
        raise ConfigurationError([Problem(("method",), message)])
    if isinstance(values.get("fallback"), str) and isinstance(changes["fallback"], Mapping):
        changes["fallback"] = [changes["fallback"]]
    return {**values, **changes}


def _with_timeout(llm: Any, configured: Any) -> Any:
    """The language model with the timeout of the configured one, if both have one.

    Raises:
        ConfigurationError: the timeout is a variable that gives no value.
    """
    timeout = configured.get("timeout") if isinstance(configured, Mapping) else None
    if timeout is None or not hasattr(llm, "timeout"):
        return llm
    if isinstance(timeout, Unfilled):
        raise ConfigurationError([timeout.problem])
    llm = copy.copy(llm)
    llm.timeout = timeout
    return llm


def _asks(method: object) -> bool:
    """Whether a method of this name asks a language model.

    Raises:
        ConfigurationError: the name is a variable that gives no value.
    """
    if isinstance(method, Unfilled):
        raise ConfigurationError([method.problem])
    if not isinstance(method, str) or method not in registry.names("methods"):
        return False
    return "llm" in model_of(registry.kind("methods", method)).model_fields

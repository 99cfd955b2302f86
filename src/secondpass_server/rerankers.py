"""The rerankers of a server, by the model names of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondpass import ConfigurationError, Reranker
from secondpass.config import load


def load_all(configurations: Mapping[str, Mapping[str, Any]]) -> dict[str, Reranker]:
    """Model name -> reranker.

    Raises:
        ConfigurationError: a configuration is wrong; it names the model.
    """
    rerankers = {}
    for name, config in configurations.items():
        try:
            rerankers[name] = load(config)
        except ConfigurationError as error:
            raise ConfigurationError(error.problems, f"model {name!r}") from error.__cause__
    return rerankers

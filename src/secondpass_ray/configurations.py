"""Prepares configurations for workers: plain mappings without keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondpass import ConfigurationError
from secondpass.settings.keys import literal_keys
from secondpass_ray.coordination import Budget


def check_keys(config: Mapping[str, Any], about: str = "") -> None:
    """Check that a configuration has only names of variables, and no keys."""
    if problems := [*literal_keys(config)]:
        raise ConfigurationError(problems, about)


def with_share(config: Mapping[str, Any], concurrency: int | None, workers: int) -> dict[str, Any]:
    """The configuration of one worker, with its share of the concurrent requests to services."""
    if concurrency is None:
        return dict(config)
    return _with_limits(config, {"concurrency": max(1, concurrency // workers)})


def within_budget(config: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
    """A configuration whose limits are the budget, unless it sets limits itself.

    A limit of the cost makes loading fail without prices.
    """
    limits = config.get("limits") or {}
    changes: dict[str, Any] = {}
    if budget.tokens is not None and "tokens" not in limits:
        changes["tokens"] = budget.tokens
    if budget.cost is not None and "cost" not in limits:
        changes["cost"] = budget.cost
    return _with_limits(config, changes) if changes else dict(config)


def _with_limits(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**config, "limits": {**(config.get("limits") or {}), **changes}}

"""The maximum and the actual use of a job's budget by rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from secondpass import ConfigurationError, Limits, Problem, Reranker, Usage
from secondpass.formats.shared import InputRequest
from secondpass.settings import changed
from secondpass_ray.coordination import Amounts, Budget

_PLANNED = ("depth", "instruction")
"""Call options that affect the use of a ranking."""


class Spending:
    """Limits a reranker to the budget that was reserved for its rows.

    The maximum use of a row is that of its plan, including repairs, or the limits of the
    configuration, if they are lower. It is set as the limit of its ranking, so that retries and
    fallbacks cannot exceed it.

    Args:
        reranker: its limits are changed for each batch.
        options: default call options; a request may have its own.
    """

    def __init__(self, reranker: Reranker, options: Mapping[str, Any]) -> None:
        self._reranker, self._options = reranker, options
        self._limits = reranker.limits

    def needs(self, requests: Sequence[InputRequest]) -> list[Amounts]:
        """The maximum use of each request: for all of them, that of the largest."""
        needs = [self._need(request) for request in requests]
        most = Amounts(
            max((need.tokens for need in needs), default=0.0),
            max((need.cost for need in needs), default=0.0),
        )
        self._reranker.limits = _limited(self._limits, most)
        return [most] * len(needs)

    def spent(self, usages: Sequence[Usage], need: Amounts) -> Amounts:
        """The use of rankings; if a service did not report its usage, the maximum ``need``."""
        total = Amounts()
        for usage in usages:
            tokens = cost = 0.0
            if usage.input_tokens is not None or usage.output_tokens is not None:
                tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
                cost = need.cost if usage.cost is None else usage.cost
            elif usage.calls:
                tokens, cost = need.tokens, need.cost
            total += Amounts(tokens, cost)
        return total

    def _need(self, request: InputRequest) -> Amounts:
        options = {**self._options, **request.options}
        planner = self._reranker
        planner.limits = self._limits
        chosen: dict[str, Any] = {name: options.get(name) for name in _PLANNED}
        plan = planner.plan(request.candidates, query=request.query, **chosen)
        limits = self._limits
        if any(stage.calls is None for stage in plan.stages):  # then check_budget wants a limit
            return Amounts(limits.tokens or 0, limits.cost or 0)
        times = 1 + limits.repair
        tokens = cost = 0.0
        for stage in plan.stages:
            tokens += ((stage.input_tokens or 0.0) + (stage.output_tokens or 0.0)) * times
            cost += (stage.cost or 0.0) * times
        return Amounts(
            math.ceil(tokens if limits.tokens is None else min(tokens, limits.tokens)),
            cost if limits.cost is None else min(cost, limits.cost),
        )


def check_budget(reranker: Reranker, budget: Budget) -> None:
    """Check that the use of a row can be planned or is limited, so that a budget is guaranteed.

    Raises:
        ConfigurationError: neither is the case.
    """
    if not budget:
        return
    limits = reranker.limits
    stated = all(stage.calls is not None for stage in reranker.plan(10).stages)
    for name, total, limit in (
        ("tokens", budget.tokens, limits.tokens),
        ("cost", budget.cost, limits.cost),
    ):
        if total is not None and limit is None and not stated:
            message = "is needed for a budget: the method does not say how much a ranking may take"
            raise ConfigurationError([Problem(("limits", name), message)])


def _limited(limits: Limits, most: Amounts) -> Limits:
    # A sum of the ranking may differ from that of its plan in the last digit.
    tokens, cost = int(most.tokens), most.cost * (1 + 1e-9)
    return changed(limits, tokens=tokens or limits.tokens, cost=cost or limits.cost)

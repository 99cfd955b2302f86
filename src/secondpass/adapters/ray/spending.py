"""What rows may take of a job's budget, and what they took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from secondpass.adapters.ray.coordination import Amounts, Budget
from secondpass.errors import ConfigurationError, Problem
from secondpass.formats.requests import InputRequest
from secondpass.limits import Limits
from secondpass.reranker import Reranker
from secondpass.settings import changed
from secondpass.types import Usage

_PLANNED = ("depth", "top_k", "instruction")
"""Call options that change what a ranking takes."""


class Spending:
    """Keeps a reranker within what was held for its rows.

    A row may take the upper bound of its plan, repairs included, or what the limits of the
    configuration allow, if that is less. This is the limit of its ranking, so that retries and
    fallbacks cannot take more.

    Args:
        reranker: whose limits are changed for each batch.
        options: call options, where a request has none of its own.
    """

    def __init__(self, reranker: Reranker, options: Mapping[str, Any]) -> None:
        self._reranker, self._options = reranker, options
        self._limits = reranker.limits

    def needs(self, requests: Sequence[InputRequest]) -> list[Amounts]:
        """What each request may take; all may take what the largest may."""
        found = [self._need(request) for request in requests]
        most = Amounts(
            max((need.tokens for need in found), default=0.0),
            max((need.cost for need in found), default=0.0),
        )
        self._reranker.limits = _limited(self._limits, most)
        return [most] * len(found)

    def spent(self, usages: Sequence[Usage], need: Amounts) -> Amounts:
        """What rankings took; of one that asked and does not know it, what it may have taken."""
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
            for bound in (stage.input_tokens, stage.output_tokens):
                tokens += 0.0 if bound is None else bound[1] * times
            cost += 0.0 if stage.cost is None else stage.cost[1] * times
        return Amounts(
            math.ceil(tokens if limits.tokens is None else min(tokens, limits.tokens)),
            cost if limits.cost is None else min(cost, limits.cost),
        )


def check_budget(reranker: Reranker, budget: Budget) -> None:
    """Check that a budget can be kept to: what a row may take has an upper bound.

    Raises:
        ConfigurationError: the method states no bounds, and the limits set none.
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

"""The depth for candidates that no search has ordered, such as the lines of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondpass.asking.life_cycle import asks_service
from secondpass.concurrency.lazy import running_nothing
from secondpass.errors import SecondPassError
from secondpass.reranker import Reranker


def scoring_all(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the depth None, if scoring all candidates costs no money.

    It is for configurations whose depth is a default or that of a preset, which assume the order of
    a search. The depth stays if a method or a fallback asks a service or is not built in; if a
    threshold or probabilities were fitted for it; and beside a deadline or ``strict``, which were
    chosen for it. A wrong configuration is returned as it is: loading it says what is wrong.
    """
    try:
        with running_nothing():
            reranker = Reranker.from_config(config)
            methods = [reranker.method, *(stage.method for stage in reranker.fallback)]
            limits = reranker.limits
            is_timed = reranker.strict or limits.deadline is not None
            if is_timed or any(map(asks_service, methods)):
                return dict(config)
            reranker.changed(depth=None)
    except SecondPassError:
        return dict(config)
    return {**config, "depth": None}

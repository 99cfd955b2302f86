"""Loads models before the clock of a deadline starts: each process of the command loads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from secondpass.reranker import Reranker
from secondpass.types import Request


class WarmUp:
    """Loads the models of a reranker once, before its first rankings whose time is limited."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker: Reranker | None = reranker  # None once its models were loaded

    def before(self, requests: Sequence[Request], options: Sequence[Mapping[str, Any]]) -> None:
        """Load the models, unless there is nothing to rank; what fails, the reports say."""
        reranker = self._reranker
        if reranker is None or not any(request.candidates for request in requests):
            return
        limits = reranker.limits
        seconds = [limits.deadline, *(it.get("deadline") for it in options)]
        if reranker.when is not None or all(it is None for it in seconds):
            return  # no query may need the models, or none is in a hurry
        self._reranker = None
        with suppress(Exception):
            reranker.changed(log_level="debug").warm_up()

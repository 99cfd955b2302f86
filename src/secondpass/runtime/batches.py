"""Runs ranking passes in batches, and logs their issues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from secondpass.runtime import drivers
from secondpass.runtime.diagnostics import log_issues
from secondpass.runtime.scheduler import Pass
from secondpass.types import Ranking

_SIDE_BY_SIDE = 64
"""Passes that run side by side: enough to fill the batches of scorers, in bounded memory."""


def run(passes: Iterator[Pass[Ranking]], log_level: str) -> list[Ranking]:
    """Run all passes, log their issues and return their rankings in the same order."""
    rankings: list[Ranking] = []
    while batch := list(islice(passes, _SIDE_BY_SIDE)):
        rankings += drivers.run(batch)
        log_issues(rankings[-len(batch) :], log_level)
    return rankings


async def arun(passes: Iterator[Pass[Ranking]], log_level: str) -> list[Ranking]:
    """:func:`run` for event loops."""
    rankings: list[Ranking] = []
    while batch := list(islice(passes, _SIDE_BY_SIDE)):
        rankings += await drivers.arun(batch)
        log_issues(rankings[-len(batch) :], log_level)
    return rankings

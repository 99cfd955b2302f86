"""Which scorers store passages, and which texts of a task they would score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from secondpass.asking.dry_run import dry_ledger, dry_run
from secondpass.effects import Method, Task
from secondpass.limits import Limits
from secondpass.ranking.scoring import member
from secondpass.ranking.stages import Stage
from secondpass.ranking.windows import judged_by_windows


def stored_texts(stages: Sequence[Stage], task: Task) -> list[tuple[Any, Sequence[str]]]:
    """Each scorer that stores passages, with the texts that it would score of a task."""
    results: list[tuple[Any, Sequence[str]]] = []
    for method in _each(stage.method for stage in stages):
        run = dry_run(judged_by_windows(method, task), dry_ledger(Limits()))
        for effect in run.scored:
            if _stores_passages(effect.scorer):
                results.append((effect.scorer, effect.texts))
    return results


def _stores_passages(scorer: object) -> bool:
    has_store = member(scorer, "store", None) is not None
    return has_store and callable(member(scorer, "store_passages", None))


def _each(methods: Iterable[Method]) -> Iterator[Method]:
    """Methods; in place of one that runs others, those that it runs."""
    for method in methods:
        if parts := getattr(method, "methods", None):
            yield from _each(parts)
        else:
            yield method

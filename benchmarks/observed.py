"""Rankings of collections, which benchmarks of evaluation resample.

A reranker runs once over each collection; the benchmarks then draw thousands of samples from its
rankings. Give ``--cache FOLDER`` to keep the rankings for the next run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from checked import check
from quality import RETRIEVED, add_data, first_stages

from secondpass import Ranking, Reranker
from secondpass_evaluation import make_suite
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.observations import Observations

EMBEDDED: Mapping[str, Any] = {"method": {"type": "embedded", "memory_mb": 400}}
LEXICAL: Mapping[str, Any] = {"method": {"type": "lexical"}}


def observe(folder: Path, cache: Path | None, depth: int = RETRIEVED) -> Observations:
    """The first stage of a collection (its own, else BM25), with the journal of its rankings."""
    stage = next(first_stages(folder, stemmed=False))
    suite = make_suite(folder.name, stage.queries, stage.qrels, candidates=stage.candidates)
    journal = None
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
        journal = Journal(cache / f"{folder.name}.jsonl")
    return Observations(suite, behind="given", depth=depth, journal=journal, progress=_show)


def rankings_of(
    observed: Observations, name: str, reranker: Reranker, expected: Collection[str] = ()
) -> dict[str, Ranking]:
    """The ranking of each query, which is ``ok`` but for the expected issues."""
    rankings = observed.rankings(name, reranker)
    for ranking in rankings.values():
        check(ranking.report, expected)
    return rankings


def add_options(parser: argparse.ArgumentParser, *sets: str) -> None:
    """Add ``--data``, ``--sets`` and ``--cache``."""
    add_data(parser)
    parser.add_argument("--sets", nargs="+", default=list(sets), help="names of folders in DATA")
    parser.add_argument(
        "--cache", type=Path, help="folder for the rankings, to reuse them in the next run"
    )


def _show(name: str, done: int, total: int) -> None:
    if done == total or done % 50 == 0:
        print(f"\r{name}: {done} of {total}", end="\n" if done == total else "", file=sys.stderr)

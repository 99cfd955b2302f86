"""Shared by the recipes: the handbook of a bicycle-sharing scheme, its embeddings, and a table.

``suite/`` has the 24 passages of the handbook, 40 questions and the passages that answer them, in
BEIR's format, so ``secondpass eval examples/recipes/suite`` reads it too. All texts were invented
for these examples.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # missing_package.py

import missing_package  # noqa: F401 - says what to install

from secondpass import Candidate, Ranking
from secondpass.extend import MiniLM
from secondpass_evaluation import read_corpus, read_queries

HERE = Path(__file__).parent
SUITE = HERE / "suite"
DIMENSIONS = 384
"""Of the vectors of :func:`embed`."""


@cache
def _model() -> MiniLM:
    return MiniLM()


def passages() -> list[Candidate]:
    """The passages, with their titles as metadata."""
    return list(read_corpus(SUITE / "corpus.jsonl"))


def questions() -> dict[str, str]:
    """The questions by their ids."""
    return read_queries(SUITE / "queries.jsonl")


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors of length 1 by all-MiniLM-L6-v2, 384 numbers each."""
    vectors: list[list[float]] = _model().embed(texts).tolist()
    return vectors


def full_text(passage: Candidate) -> str:
    """Title and text, as the passages are embedded."""
    return f"{passage.metadata['title']}\n{passage.text}"


def show(ranking: Ranking) -> None:
    """Print a line for each item, and a line about the ranking."""
    print(f"{ranking.query}\n")
    print("rank  was  retrieved  reranked  passage")
    for item in ranking:
        retrieved = "-" if item.score is None else f"{item.score:.3f}"
        reranked = "-" if item.rerank_score is None else f"{item.rerank_score:.3f}"
        print(f"{item.rank:4} {item.position + 1:4}  {retrieved:>9}  {reranked:>8}  {item.id}")
    report = ranking.report
    print(f"\n{report.status}, by {report.method or 'the first stage'}")
    for issue in report.issues:
        print(f"  {issue.code}: {issue.message}")

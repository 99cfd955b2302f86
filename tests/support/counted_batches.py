"""A method for replicas: a slow model that records the number of queries of each batch.

``install`` makes it the method ``counted_batches`` of the processes that have the folder on their
path.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from joined_calls import Model, expected
from secondpass.scorers.engines.pairs import PairEngine

SECONDS = 0.05
"""Seconds per batch; requests that arrive meanwhile share the next one."""
FILE = "COUNTED_BATCHES"
"""Variable with the path of a file; each batch adds a line with its number of queries."""


class _Counting(Model):
    def run(self, pairs):
        with Path(os.environ[FILE]).open("a") as file:
            file.write(f"{len({pair.text.partition('|')[0] for pair in pairs})}\n")
        time.sleep(SECONDS)
        return super().run(pairs)


class CountedBatches:
    """Scores ``query|`` and a passage by their characters."""

    joins_calls = True
    model_name = "counted"

    def __init__(self) -> None:
        self._engine = PairEngine(_Counting(budget=4096))

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return self._engine.score([(query + "|", documents)])[0]


def install(folder: Path) -> None:
    """Register the method for processes with ``folder`` on their path."""
    metadata = folder / "counted_batches-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: counted-batches\nVersion: 1.0\n"
    )
    line = "counted_batches = counted_batches:CountedBatches"
    (metadata / "entry_points.txt").write_text(f"[secondpass.methods]\n{line}\n")


def order(query: str, documents: Sequence[str]) -> list[int]:
    """The indices of the documents, the best first."""
    scores = expected(query + "|", documents)
    return sorted(range(len(documents)), key=lambda index: (-scores[index], index))

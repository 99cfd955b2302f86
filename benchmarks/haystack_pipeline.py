"""Compares the ranker in a Haystack pipeline with a component that returns its documents.

A pipeline copies what goes into a component, documents with their embeddings too, so the time of
one call is mostly Haystack's own. The two pipelines take turns in one run, so that both meet the
same machine; the scorer has its scores already. It is wall-clock time, what a query waits.

    python benchmarks/haystack_pipeline.py
"""

from __future__ import annotations

import gc
import logging
import os
import random
import statistics
import time
from collections.abc import Sequence

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from haystack import Document, Pipeline, component

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import Reranker

ROUNDS = 150
COUNT = 100
DIMENSIONS = (0, 768)
BAR = 2.0  # milliseconds that the ranker may add


@component
class PassThrough:
    """Returns its documents."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        del query
        return {"documents": documents}


class Ready:
    """A scorer with precomputed scores."""

    model_name = "ready"

    def __init__(self) -> None:
        self.scores = [((at * 7919) % COUNT) / COUNT for at in range(COUNT)]

    def score_pairs(self, _query: str, _documents: Sequence[str]) -> list[float]:
        return self.scores


def documents(dimensions: int) -> list[Document]:
    numbers = random.Random(0)
    return [
        Document(
            id=f"id{at}",
            content=f"the text of passage {at}",
            score=1 / (at + 1),
            meta={"source": "a/b.md", "page": 3, "ready": False},
            embedding=[numbers.random() for _ in range(dimensions)] or None,
        )
        for at in range(COUNT)
    ]


def pipeline_of(what: PassThrough | SecondPassRanker) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("it", what)
    pipeline.warm_up()
    return pipeline


def measure(dimensions: int) -> dict[str, list[float]]:
    """Milliseconds of each run of each pipeline."""
    pipelines = {
        "pass-through": pipeline_of(PassThrough()),
        "ranker": pipeline_of(SecondPassRanker(Reranker(Ready()))),
    }
    data = {"it": {"query": "q", "documents": documents(dimensions)}}
    taken: dict[str, list[float]] = {name: [] for name in pipelines}
    turn = list(pipelines.items())
    for _ in range(ROUNDS):
        turn.reverse()  # what comes second finds other caches
        for name, pipeline in turn:
            gc.collect()
            started = time.perf_counter()
            pipeline.run(data)
            taken[name].append((time.perf_counter() - started) * 1e3)
    return taken


def main() -> None:
    logging.disable(logging.WARNING)
    print(f"| ms for {COUNT} documents | | pass-through | ranker | difference | bar |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for dimensions in DIMENSIONS:
        taken = measure(dimensions)
        what = f"{dimensions}-d embeddings" if dimensions else "no embeddings"
        for name, of in (("least", min), ("median", statistics.median)):
            plain, ours = of(taken["pass-through"]), of(taken["ranker"])
            print(
                f"| {what} | {name} | {plain:.2f} | {ours:.2f} | {ours - plain:.2f} | {BAR:.0f} |"
            )


if __name__ == "__main__":
    main()

"""Compares the ranker in a Haystack pipeline with a component that returns its documents.

A pipeline copies the inputs of a component, documents with their embeddings included, so most of
the time of a call is Haystack's own. The two pipelines alternate, so that load on the machine
affects both; the scorer returns precomputed scores. Times are wall-clock.

    python benchmarks/haystack_pipeline.py
"""

from __future__ import annotations

import argparse
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
TARGET = 2.0  # milliseconds that the ranker may add


@component
class PassThrough:
    """Returns its documents."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        del query
        return {"documents": documents}


class Precomputed:
    """A scorer with precomputed scores."""

    model_name = "precomputed"

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


def pipeline_of(tested: PassThrough | SecondPassRanker) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("tested", tested)
    pipeline.warm_up()
    return pipeline


def measure(dimensions: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each run of each pipeline."""
    pipelines = {
        "pass-through": pipeline_of(PassThrough()),
        "ranker": pipeline_of(SecondPassRanker(Reranker(Precomputed()))),
    }
    data = {"tested": {"query": "q", "documents": documents(dimensions)}}
    times: dict[str, list[float]] = {name: [] for name in pipelines}
    report = pipelines["ranker"].run(data)["tested"]["report"]
    if report["status"] != "ok":
        raise SystemExit(f"the ranking is {report['status']}: {report['issues']}")
    turn = list(pipelines.items())
    for _ in range(rounds):
        turn.reverse()  # the second pipeline benefits from warm caches
        for name, pipeline in turn:
            gc.collect()
            started = time.perf_counter()
            pipeline.run(data)
            times[name].append((time.perf_counter() - started) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each pipeline")
    rounds = parser.parse_args().rounds
    logging.disable(logging.WARNING)
    print(f"| ms for {COUNT} documents | | pass-through | ranker | difference | target |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for dimensions in DIMENSIONS:
        times = measure(dimensions, rounds)
        title = f"{dimensions}-d embeddings" if dimensions else "no embeddings"
        for name, summarize in (("minimum", min), ("median", statistics.median)):
            plain, ranker = summarize(times["pass-through"]), summarize(times["ranker"])
            print(
                f"| {title} | {name} | {plain:.2f} | {ranker:.2f} | {ranker - plain:.2f} "
                f"| ≤ {TARGET:.0f} |"
            )


if __name__ == "__main__":
    main()

"""Measures the CPU time per candidate of everything except the model.

The scorer returns precomputed scores, so only secondpass is measured. An adapter's cost is what it
adds to the core's call with existing candidates. It includes copying each document, which has a row
of its own. `when` is what a condition that holds adds to the call, `terms` what two of them add,
and `fuse` the time of fusing two lists with half of their candidates in common, per candidate of
both.

    python benchmarks/overhead.py
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from checked import check
from haystack import Document
from llama_index.core.schema import NodeWithScore, TextNode

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import Candidate, Reranker, fuse

ROUNDS = 25
TARGETS = {
    "core": 5.0,
    "core, async": 5.0,
    "terms": 8.0,
    "fuse": 5.0,
    "Haystack adapter": 10.0,
    "LlamaIndex adapter": 10.0,
}


class Precomputed:
    """A scorer with precomputed scores."""

    model_name = "precomputed"

    def __init__(self, count: int) -> None:
        self.scores = [((at * 7919) % count) / count for at in range(count)]

    def score_pairs(self, _query: str, _documents: Sequence[str]) -> list[float]:
        return self.scores


def minimum(cases: dict[str, Callable[[], object]], count: int, rounds: int) -> dict[str, float]:
    """CPU microseconds per candidate, minimum of several rounds; cases alternate."""
    best = dict.fromkeys(cases, float("inf"))
    repeats = max(1, 5_000 // count)
    for _ in range(rounds):
        for name, run in cases.items():
            gc.collect()
            started = time.process_time()
            for _ in range(repeats):
                run()
            seconds = (time.process_time() - started) / repeats
            best[name] = min(best[name], seconds / count * 1e6)
    return best


def measure(count: int, rounds: int) -> dict[str, float]:
    metadata = {"source": "a/b.md", "page": 3, "ready": False, "created": "2026-11-20T08:00:00Z"}
    names = [f"id{at}" for at in range(count)]
    texts = [f"the text of passage {at}" for at in range(count)]
    candidates = [
        Candidate(text, name, 1 / (at + 1), dict(metadata))
        for at, (text, name) in enumerate(zip(texts, names, strict=True))
    ]
    documents = [
        Document(id=one.id, content=one.text, score=one.score, meta=dict(one.metadata))
        for one in candidates
    ]
    nodes = [
        NodeWithScore(
            node=TextNode(id_=one.id, text=one.text, metadata=dict(one.metadata)), score=one.score
        )
        for one in candidates
    ]
    reranker = Reranker(Precomputed(count), depth=None)
    gated = Reranker(Precomputed(count), depth=None, when={"top_zscore": {"below": 1e9}})
    termed = Reranker(
        Precomputed(count),
        depth=None,
        terms=[
            {"type": "recency", "field": "updated|created", "half_life_days": 30, "weight": 0.1},
            {"type": "number", "field": "page", "scale": "log", "high": 1000, "weight": 0.1},
        ],
    )
    for one in (reranker, gated, termed):
        ranking = one.rerank("q", candidates)
        check(ranking.report)
        assert ranking.report.skipped is None
    haystack = SecondPassRanker(reranker, dedupe=False)
    llama_index = SecondPassRerank(reranker)
    third = count // 3
    halves = {"one": candidates[: 2 * third], "two": candidates[third : 3 * third]}
    loop = asyncio.new_event_loop()
    found = minimum(
        {
            "core": lambda: reranker.rerank("q", candidates),
            "core, async": lambda: loop.run_until_complete(reranker.arerank("q", candidates)),
            "when": lambda: gated.rerank("q", candidates),
            "terms": lambda: termed.rerank("q", candidates),
            "fuse": lambda: fuse(halves),
            "Haystack adapter": lambda: haystack.run("q", documents),
            "- copying a Document alone": lambda: [
                replace(one, meta={**one.meta}) for one in documents
            ],
            "LlamaIndex adapter": lambda: llama_index.postprocess_nodes(nodes, query_str="q"),
            "- copying a node alone": lambda: [
                NodeWithScore(node=one.node.model_copy(), score=0.5) for one in nodes
            ],
        },
        count,
        rounds,
    )
    for name in ("when", "terms", "Haystack adapter", "LlamaIndex adapter"):
        found[name] -= found["core"]
    found["fuse"] *= count / (4 * third)
    loop.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="the table has minima over them")
    rounds = parser.parse_args().rounds
    logging.disable(logging.WARNING)
    counts = (100, 10_000)
    found = {count: measure(count, rounds) for count in counts}
    print(
        "| µs of CPU per candidate | "
        + " | ".join(f"{count:,}" for count in counts)
        + " | target |"
    )
    print("| --- |" + " ---: |" * (len(counts) + 1))
    for name in found[counts[0]]:
        cells = " | ".join(f"{found[count][name]:.1f}" for count in counts)
        print(f"| {name} | {cells} | {f'≤ {TARGETS[name]:.0f}' if name in TARGETS else ''} |")


if __name__ == "__main__":
    main()

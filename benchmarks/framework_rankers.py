"""Compares a call of the adapters with a call of each framework's own ranker, without a model.

All have the same scorer, which returns precomputed scores: the cross-encoder of Haystack's
SentenceTransformersSimilarityRanker and of LlamaIndex's SentenceTransformerRerank is replaced by
it. So everything but the model is measured: CPU microseconds per candidate, the minimum of several
rounds in which the cases alternate. Haystack's ranker needs the package
sentence-transformers-haystack, without which its row is left out.

    python benchmarks/framework_rankers.py
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from checked import check
from haystack import Document
from llama_index.core.postprocessor import SentenceTransformerRerank
from llama_index.core.schema import NodeWithScore, TextNode
from overhead import Precomputed, minimum

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import Reranker

COUNTS = (20, 100, 1_000)
BAR = 1.5
"""What a call of an adapter may cost, in calls of the framework's own ranker."""


class StubCrossEncoder:
    """The part of sentence-transformers' CrossEncoder that both rankers call."""

    def __init__(self, count: int) -> None:
        self.scores = Precomputed(count).scores
        best_first = sorted(range(count), key=lambda at: -self.scores[at])
        self.ranking = [{"corpus_id": at, "score": self.scores[at]} for at in best_first]

    def predict(self, _pairs: Sequence[tuple[str, str]]) -> list[float]:
        return self.scores

    def rank(self, **_options: Any) -> list[dict[str, Any]]:
        return self.ranking


def haystack_ranker(count: int) -> Any | None:
    """Haystack's ranker with the stub; None if its package is not installed."""
    try:
        from haystack_integrations.components.rankers import sentence_transformers
    except ImportError:
        return None
    ranker = sentence_transformers.SentenceTransformersSimilarityRanker(
        top_k=count, scale_score=False
    )
    ranker._cross_encoder = StubCrossEncoder(count)
    return ranker


def llama_index_ranker(count: int) -> SentenceTransformerRerank:
    """LlamaIndex's ranker with the stub: its constructor would load a model."""
    ranker = SentenceTransformerRerank.model_construct(top_n=count, model="stub")
    ranker.__pydantic_private__ = {"_model": StubCrossEncoder(count)}
    return ranker


def measure(count: int, rounds: int) -> dict[str, float]:
    metadata = {"source": "a/b.md", "page": 3, "ready": False}
    documents = [
        Document(
            id=f"id{at}", content=f"the text of passage {at}", score=1 / (at + 1), meta=metadata
        )
        for at in range(count)
    ]
    nodes = [
        NodeWithScore(
            node=TextNode(id_=one.id, text=one.content, metadata=dict(metadata)), score=one.score
        )
        for one in documents
    ]
    reranker = Reranker(Precomputed(count), depth=None)
    check(reranker.rerank("q", [one.content or "" for one in documents]).report)
    ours = SecondPassRanker(reranker, dedupe=True)
    ours_too = SecondPassRerank(reranker)
    theirs_too = llama_index_ranker(count)
    cases: dict[str, Callable[[], object]] = {
        "Haystack, secondpass": lambda: ours.run("q", documents),
        "LlamaIndex, secondpass": lambda: ours_too.postprocess_nodes(nodes, query_str="q"),
        "LlamaIndex, its own": lambda: theirs_too.postprocess_nodes(nodes, query_str="q"),
    }
    if (theirs := haystack_ranker(count)) is not None:
        cases["Haystack, its own"] = lambda: theirs.run(query="q", documents=documents)
    return minimum(cases, count, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    logging.disable(logging.WARNING)
    print("| framework | candidates | secondpass, µs | its own, µs | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for count in COUNTS:
        found = measure(count, rounds)
        for framework in ("Haystack", "LlamaIndex"):
            own = found.get(f"{framework}, its own")
            if own is None:
                continue
            ours = found[f"{framework}, secondpass"]
            print(f"| {framework} | {count:,} | {ours:.1f} | {own:.1f} | {ours / own:.2f} |")


if __name__ == "__main__":
    main()

"""An assistant's memories: a hybrid search, then grades blended with its scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from secondpass import Ranking
from secondpass_evaluation import HybridRetriever, default_embedder

Record: TypeAlias = dict[str, Any]

MEMORIES = Path(__file__).parent / "memories.json"


class Memory:
    """Searches memories by words, by vectors and by prominence.

    Args:
        path: a JSON file of memories with ``id``, ``content`` and ``prominence``, 0 to 1.
    """

    def __init__(self, path: Path = MEMORIES) -> None:
        self.memories: list[Record] = json.loads(path.read_text(encoding="utf-8"))
        self.retriever = HybridRetriever(self.memories, default_embedder())

    def search(self, query: str, count: int = 20, prominence: float = 0.2) -> list[Record]:
        """The best memories with ``score``: 0.4 BM25 + 0.4 semantic + 0.2 prominence.

        With another weight of the prominence, the first two share the rest.

        BM25 is divided by its highest value for the query; a negative cosine counts as 0. Without
        the extra ``embedded`` the semantic part is 0.
        """
        words = self._scores(query, "lexical")
        vectors = self._scores(query, "vector") if self.retriever.embedder else {}
        highest = max(words.values(), default=1.0)
        results = []
        for memory in self.memories:
            name = memory["id"]
            found = words.get(name, 0.0) / highest + max(0.0, vectors.get(name, 0.0))
            score = (1 - prominence) / 2 * found + prominence * memory["prominence"]
            results.append({**memory, "score": score})
        return sorted(results, key=lambda memory: -memory["score"])[:count]

    def _scores(self, query: str, mode: Any) -> dict[str, float]:
        found = self.retriever.retrieve(query, len(self.memories), mode)
        return {str(memory.id): memory.score or 0.0 for memory in found}


def records(ranking: Ranking) -> list[Record]:
    """A ranking in the assistant's format. ``relevanceScore`` is null if the model gave none."""
    return [
        {
            "id": item.id,
            "relevanceScore": item.rerank_score,
            "originalScore": item.score,
            "finalScore": item.final_score,
        }
        for item in ranking
    ]


def shown(score: float | None) -> str:
    """A score in four characters; a dash for a memory that the model left out of its reply."""
    return "   -" if score is None else f"{score:4.2f}"

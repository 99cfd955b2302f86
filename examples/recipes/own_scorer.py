"""Your own scorer, end to end: write it, try it, measure it, use it by name.

    pip install -e ".[embedded,evaluation,cli]"
    python examples/recipes/own_scorer.py
    python examples/recipes/own_scorer.py --measure

**Write it.** A user asks what E71 means; an embedding model may find E17 just as similar.
``IdentifierScorer`` compares such words exactly: its score is the share of the query's identifiers
(words with a digit) that a passage contains. Any object with ``model_name`` and ``score_pairs`` is
a scorer; with ``score_kind = "probability"``, scores outside 0 to 1 are reported.

**Try it.** Without an option, the script ranks two passages, and prints every score and the status.

**Measure it.** A query without identifiers has nothing to match, so the scorer is not used alone:
``--measure`` compares `embedded` with the mean of its similarity and this score, on the questions
of the handbook. Here `embedded` alone already ranks both codes well, so the identifiers gain
nothing. Use questions with the identifiers of your own documents.

**Use it by name.** ``@configurable`` makes ``minimum`` a setting that is validated and can be
written to YAML. Register the class in the ``pyproject.toml`` of your package, and every
configuration accepts it, in Python, in Haystack, in LlamaIndex and in the command
(``own_scorer.yaml``)::

    [project.entry-points."secondpass.methods"]
    identifiers = "own_scorer:IdentifierScorer"
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import ClassVar

import handbook

from secondpass import Ranking, Reranker
from secondpass.extend import Blend, MiniLM, configurable
from secondpass_evaluation import HybridRetriever, compare, load_suite

PASSAGES = [
    {"id": "e17", "text": "E17: the cable is not fully in the lock.", "score": 0.61},
    {"id": "e71", "text": "E71: the motor is too hot.", "score": 0.6},
]


@configurable
class IdentifierScorer:
    """Scores passages by the identifiers that they share with the query.

    Args:
        minimum: shortest identifier in characters; excludes numbers such as ages.
    """

    model_name: ClassVar[str] = "identifiers"
    score_kind: ClassVar[str] = "probability"

    def __init__(self, minimum: int = 3) -> None:
        self.minimum = minimum

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """Scores from 0 to 1; 0 for all documents if the query has no identifier."""
        wanted = self._identifiers(query)
        return [
            len(wanted & self._identifiers(document)) / max(1, len(wanted))
            for document in documents
        ]

    def _identifiers(self, text: str) -> set[str]:
        words = re.findall(r"\w+", text.casefold())
        return {word for word in words if len(word) >= self.minimum and re.search(r"\d", word)}


class WithEmbedded:
    """The mean of the embedded model's similarity and of the shared identifiers.

    A scorer may use others: this one is for the comparison with ``embedded`` alone.
    """

    model_name = "identifiers and embedded"
    pointwise = False  # similarities depend on the other documents of the list

    def __init__(self) -> None:
        self.identifiers = IdentifierScorer()
        self.embedded = Reranker.from_config({"method": "embedded", "depth": None})

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        """Scores from -0.5 to 1."""
        ranking = self.embedded.rerank(query, list(documents))
        similarity = {item.position: item.final_score or 0.0 for item in ranking}
        shared = self.identifiers.score_pairs(query, documents)
        return [(similarity[index] + value) / 2 for index, value in enumerate(shared)]


def look() -> Ranking:
    """Two passages whose retrieval scores are almost equal, in the wrong order."""
    reranker = Reranker(IdentifierScorer(), blend=Blend(original=0.3, normalize="none"))
    return reranker.rerank("The screen says E71", PASSAGES)


def measure() -> str:
    """A comparison in Markdown, after vector search."""
    suite = load_suite(handbook.SUITE)
    rerankers = {
        "embedded": Reranker.from_config({"method": "embedded"}),
        "with identifiers": Reranker(WithEmbedded()),
    }
    retriever = HybridRetriever(suite.corpus or (), MiniLM())
    comparison = compare(rerankers, suite, retriever=retriever, first_stages=["vector"], depth=10)
    return comparison.to_markdown()


def main(arguments: Sequence[str] | None = None) -> int:
    """Rank two passages, or measure."""
    parser = argparse.ArgumentParser(description="Try or measure your own scorer.")
    parser.add_argument("--measure", action="store_true", help="compare it with `embedded`")
    options = parser.parse_args(arguments)
    if options.measure:
        print(measure())
    else:
        handbook.show(look())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""First stages, and what searches a corpus for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from secondpass import Candidate, MissingExtraError
from secondpass_evaluation.search.embedders import (
    EmbeddedEmbedder,
    Embedder,
    default_embedder,
    embed_query,
)
from secondpass_evaluation.search.retrieval import HybridRetriever, Mode

FirstStage: TypeAlias = Literal["given", "vector", "lexical", "hybrid"]
"""``given``: the suite's own candidates. The others search its corpus."""


class Retriever(Protocol):
    """Searches a corpus, such as :class:`~secondpass_evaluation.HybridRetriever`."""

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        """The best ``k`` candidates, best first.

        Raises:
            InputError: the mode is not supported.
        """
        ...


class CorpusRetriever:
    """Searches a corpus by words, and by vectors that are computed when a mode first needs them.

    Args:
        corpus: the passages.
        depth: number of candidates of each list that the mode ``hybrid`` fuses.
        make_embedder: called once.
    """

    def __init__(
        self, corpus: Sequence[Candidate], depth: int, make_embedder: Callable[[], Embedder]
    ) -> None:
        self.corpus = corpus
        self.depth = depth
        self.make_embedder = make_embedder
        self._retriever: HybridRetriever | None = None

    def prepare(self, mode: Mode) -> None:
        """Compute what a mode needs, and load the model."""
        if self._retriever is None or mode not in self._retriever.modes:
            embedder = None if mode == "lexical" else self.make_embedder()
            self._retriever = HybridRetriever(self.corpus, embedder, depth=self.depth)
            if embedder is not None:
                embed_query(embedder, "")  # the vectors of the corpus may come from a cache

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        self.prepare(mode)
        assert self._retriever is not None
        return self._retriever.retrieve(query, k, mode)


def required_embedder() -> EmbeddedEmbedder:
    """The embedded model; a MissingExtraError if its extra is not installed."""
    embedder = default_embedder()
    if embedder is None:
        raise MissingExtraError("embedded", "searching by vectors")
    return embedder

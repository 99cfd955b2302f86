"""A library's search: passages by keywords, graded by a model, in an order chosen per query."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from scripted_model import language_model

from secondpass import Candidate, Ranking, Reranker
from secondpass_evaluation import HybridRetriever

Mode: TypeAlias = Literal["learn", "research"]

PASSAGES = Path(__file__).parent / "passages.yaml"


class Library:
    """Searches passages.

    Args:
        llm: settings of the model that grades, in place of the preset's.
        path: a YAML file of passages with ``id``, ``title``, ``text`` and perhaps ``difficulty``.
    """

    def __init__(self, llm: dict[str, Any], path: Path = PASSAGES) -> None:
        self.retriever = HybridRetriever(yaml.safe_load(path.read_text(encoding="utf-8")))
        self.reranker = Reranker.from_preset("graded_passages", method={"llm": llm})

    def retrieve(self, query: str) -> list[Candidate]:
        """The passages that share a word with the query, by BM25."""
        return self.retriever.retrieve(query, 30, "lexical")

    def search(self, query: str, mode: Mode) -> Ranking:
        """The passages: for learners from introductory to advanced, else by relevance.

        Passages graded below 3 are left out; the report lists them.
        """
        return self.reranker.rerank(query, self.retrieve(query), order=mode, floor=3.0)


def search(query: str, mode: Mode, *, fails: bool = False) -> Ranking:
    """Search once; with ``fails`` by a model whose replies cannot be used."""
    with language_model("GOOGLE_API_KEY", "GEMINI_API_KEY", type="openai", fails=fails) as llm:
        library = Library(llm)
        try:
            return library.search(query, mode)
        finally:
            library.reranker.close()

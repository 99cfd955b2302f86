"""A library's search: passages by keywords, graded by a model, in an order chosen per query."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias

import yaml
from scripted_model import language_model

from secondpass import Ranking, Reranker
from secondpass_evaluation import HybridRetriever

Mode: TypeAlias = Literal["learn", "research"]

PASSAGES = Path(__file__).parent / "passages.yaml"


def search(query: str, mode: Mode, *, fails: bool = False, path: Path = PASSAGES) -> Ranking:
    """The passages that share a word with the query, by BM25, then graded by a model.

    For learners they are from introductory to advanced, else by relevance. Passages graded below 3
    are left out; the report lists them.

    Args:
        query: the search query.
        mode: ``learn`` or ``research``.
        fails: whether the model's replies cannot be used.
        path: a YAML file of passages with ``id``, ``title``, ``text`` and perhaps ``difficulty``.
    """
    retriever = HybridRetriever(yaml.safe_load(path.read_text(encoding="utf-8")))
    with (
        language_model("GOOGLE_API_KEY", "GEMINI_API_KEY", type="openai", fails=fails) as llm,
        closing(Reranker.from_preset("graded_passages", method={"llm": llm})) as reranker,
    ):
        passages = retriever.retrieve(query, 30, "lexical")
        return reranker.rerank(query, passages, order=mode, floor=3.0)

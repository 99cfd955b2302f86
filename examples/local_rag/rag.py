"""A local knowledge base: an index of pages, search in several modes, and its evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from secondpass import Ranking, Reranker, config
from secondpass_evaluation import (
    Comparison,
    Index,
    Mode,
    build_index,
    compare,
    default_embedder,
    load_suite,
    open_index,
)

Config: TypeAlias = dict[str, Any]

HERE = Path(__file__).parent
PAGES = HERE / "pages"
QUESTIONS = HERE / "questions.jsonl"


def make_index(pages: Path, folder: Path) -> Index:
    """Index a folder of Markdown, text or HTML pages by words and by vectors."""
    build_index(pages, folder, default_embedder())
    return open_index(folder)


def configuration(
    preset: str = "cross_encoder_hybrid", model: str | None = None, top_n: int = 50
) -> Config:
    """A preset as a configuration, with another model and depth.

    The preset ``cross_encoder_hybrid`` is a cross-encoder of the Hugging Face hub, ``embedded`` a
    small model installed by pip.
    """
    overrides: Config = {} if model is None else {"method": {"model": model}}
    return config.preset(preset, depth=top_n, **overrides)


def query(
    index: Index,
    question: str,
    mode: Mode = "hybrid",
    reranker: Reranker | None = None,
    *,
    k: int = 8,
    rrf_k: float = 60,
) -> dict[str, Any]:
    """Search, and rerank the fused list before it is cut to ``k``."""
    count = k if reranker is None else max(k, reranker.depth or k)
    found = index.retrieve(question, count, mode, rrf_k)
    if reranker is None:
        results = [
            {"final_rank": rank, "id": item.id, "score": item.score, "text": item.text}
            for rank, item in enumerate(found, 1)
        ]
        return {"question": question, "mode": mode, "results": results}
    ranking = reranker.rerank(question, found, top_k=k)
    return {
        "question": question,
        "mode": f"{mode}+rerank",
        "results": _reranked(ranking),
        "status": ranking.report.status,
    }


def evaluate(index: Index, questions: Path, reranker: Config | None = None) -> Comparison:
    """Measure the modes ``vector``, ``lexical``, ``hybrid`` and ``hybrid+rerank``.

    Without a reranker, or if its model cannot be loaded, the last one is listed with the reason.
    """
    suite = load_suite(questions, corpus=index.corpus)
    rerankers = {} if reranker is None else {"rerank": reranker}
    return compare(rerankers, suite, retriever=index, behind="hybrid")


def _reranked(ranking: Ranking) -> list[dict[str, Any]]:
    return [
        {
            "final_rank": item.rank,
            "id": item.id,
            "score": item.score,
            "rerank_score": item.rerank_score,
            "final_score": item.final_score,
            "text": item.text,
        }
        for item in ranking
    ]

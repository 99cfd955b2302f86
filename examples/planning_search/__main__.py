"""Search tactics of a planning tool, reranked with ``--llm-rerank``.

    pip install -e ".[openai]"
    python examples/planning_search database --llm-rerank

Without a key, a scripted model answers; README.md has what it prints.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

# `python examples/planning_search` finds the modules beside that folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import missing_package  # noqa: F401 - says what to install
from planning_search.search import STORE, Store
from scripted_model import language_model

from secondpass import Ranking, Reranker, RerankError


def rerank(query: str, store: Store, *, limit: int, only_ready: bool, strict: bool) -> Ranking:
    """Search, and let the preset ``listwise_ids`` rerank the results for the state of the project.

    Raises:
        RerankError: under ``strict``, if the model failed.
    """
    results = store.search(query, only_ready=only_ready)
    with (
        language_model("OPENAI_API_KEY") as llm,
        closing(
            Reranker.from_preset("listwise_ids", method={"llm": llm}, strict=strict)
        ) as reranker,
    ):
        return reranker.rerank(query, results, context={"nodes": store.nodes}, top_k=limit)


def show(rows: Iterable[tuple[int, str, int]]) -> None:
    """Print the rank, the tactic and its rank before."""
    for rank, name, before in rows:
        print(f"{rank}  {name:16}  was {before}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="planning_search", description="Search tactics.")
    parser.add_argument("query")
    parser.add_argument(
        "--store", type=Path, default=STORE, help="folder with tactics.yaml and project.yaml"
    )
    parser.add_argument(
        "--ready", action="store_true", help="only tactics whose dependencies are completed"
    )
    parser.add_argument("--limit", type=int, default=5, help="number of results")
    parser.add_argument("--llm-rerank", action="store_true", help="rerank with a language model")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if the model fails")
    options = parser.parse_args(arguments)
    store = Store.read(options.store)
    if not options.llm_rerank:
        results = store.search(options.query, only_ready=options.ready)[: options.limit]
        show((rank, tactic["id"], rank) for rank, tactic in enumerate(results, 1))
        return 0
    try:
        ranking = rerank(
            options.query,
            store,
            limit=options.limit,
            only_ready=options.ready,
            strict=options.strict,
        )
    except RerankError as error:
        print(f"planning_search: {error}", file=sys.stderr)
        return 1
    show((item.rank, str(item.id), item.position + 1) for item in ranking)
    print(f"{ranking.report.status}: ordered by {ranking.report.method or 'the heuristic'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

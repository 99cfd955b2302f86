"""Search tactics, reranked in another process.

    pip install -e ".[openai,cli]"
    cd examples && python -m planning_search.over_coprocess database stock

This is how the planning tool itself, which is not written in Python, can use the preset: it starts
``secondpass rerank --batch 1`` once and sends a line for each search.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import missing_package  # noqa: F401 - says what to install
from coprocess import Coprocess, llm_options
from planning_search.__main__ import show
from planning_search.search import STORE, Store
from scripted_model import language_model


def main(queries: Sequence[str]) -> int:
    """Search for each query with one process."""
    store = Store.read(STORE)
    with (
        language_model("OPENAI_API_KEY") as llm,
        Coprocess("--preset", "listwise_ids", *llm_options(llm)) as coprocess,
    ):
        for query in queries:
            answer = coprocess.rerank(
                query, store.search(query), context={"nodes": store.nodes}, top_k=5
            )
            print(f"{query}: {answer['report']['status']}")
            show((item["rank"], item["id"], item["position"] + 1) for item in answer["ranking"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

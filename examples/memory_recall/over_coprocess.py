"""Recall memories, reranked in another process.

    pip install -e ".[openai,embedded,evaluation,cli]"
    cd examples && python -m memory_recall.over_coprocess "What should I cook for Ana?"

This is how an assistant that is not written in Python can use the preset: it starts ``secondpass
rerank --batch 1`` once and sends a line for each query. client.mjs does so in JavaScript.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import missing_package  # noqa: F401 - says what to install
from coprocess import Coprocess, llm_options
from memory_recall.recall import Memory, shown
from scripted_model import language_model


def main(queries: Sequence[str]) -> int:
    """Recall for each query with one process."""
    memory = Memory()
    with (
        language_model("GROQ_API_KEY", api_key_env=None) as llm,
        Coprocess("--preset", "blended_scores", *llm_options(llm)) as coprocess,
    ):
        for query in queries:
            answer = coprocess.rerank(query, memory.search(query))
            print(f"{query} {answer['report']['status']}")
            for item in answer["ranking"]:
                print(f" {shown(item['final_score'])}  {item['text']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Recall memories of an assistant; JSON with ``--json``.

    pip install -e ".[openai,embedded,evaluation]"
    python examples/memory_recall "What should I cook for Ana?"

Without a key, a scripted model answers; README.md has what it prints.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

# `python examples/memory_recall` finds the modules beside that folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import missing_package  # noqa: F401 - says what to install
from memory_recall.recall import Memory, records, shown
from scripted_model import language_model

from secondpass import Ranking, Reranker

PROMINENCE = {"type": "number", "field": "prominence", "high": 1, "weight": 0.1}


def recall(query: str, memory: Memory, *, fails: bool = False, term: bool = False) -> Ranking:
    """Search, and rerank with the preset ``blended_scores``; ``fails`` as in scripted_model.

    With ``term``, the prominence counts after the model, and not in the search.
    """
    settings = {"terms": [PROMINENCE]} if term else {}
    with (
        language_model("GROQ_API_KEY", api_key_env=None, fails=fails) as llm,
        closing(
            Reranker.from_preset("blended_scores", method={"llm": llm}, **settings)
        ) as reranker,
    ):
        return reranker.rerank(query, memory.search(query, prominence=0 if term else 0.2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="memory_recall", description="Recall memories.")
    parser.add_argument("query")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument(
        "--fail", action="store_true", help="use a model whose replies are malformed"
    )
    parser.add_argument(
        "--term", action="store_true", help="count the prominence after the model, as a term"
    )
    options = parser.parse_args(arguments)
    memory = Memory()
    ranking = recall(options.query, memory, fails=options.fail, term=options.term)
    if options.json:
        print(json.dumps(records(ranking), indent=2))
        return 0
    print("final  model  search")
    for item in ranking:
        scores = [shown(score) for score in (item.final_score, item.rerank_score, item.score)]
        print(" {}   {}    {}".format(*scores), item.text, sep="  ")
    dropped = len(ranking.report.left_out.get("floor", ()))
    print(f"{ranking.report.status}: {dropped} of {len(memory.memories)} memories dropped")
    return 0


if __name__ == "__main__":
    sys.exit(main())

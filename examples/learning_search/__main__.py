"""Search a philosophy library, for learners or for research.

    pip install -e ".[openai,evaluation]"
    python examples/learning_search "Does determinism exclude free choice?" --mode learn

Without a key, a scripted model answers; README.md has what it prints.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# `python examples/learning_search` finds the modules beside that folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import missing_package  # noqa: F401 - says what to install
from learning_search.search import search


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="learning_search", description="Search the library.")
    parser.add_argument("query")
    parser.add_argument(
        "--mode",
        choices=["learn", "research"],
        default="research",
        help="order of the results (default: research)",
    )
    parser.add_argument(
        "--fail", action="store_true", help="use a model whose replies are malformed"
    )
    options = parser.parse_args(arguments)
    ranking = search(options.query, options.mode, fails=options.fail)
    for item in ranking:
        grade = "  - " if item.rerank_score is None else f"{item.rerank_score:4.1f}"
        difficulty = item.metadata.get("difficulty", "unknown")
        print(f"{item.rank}  {grade}  {difficulty:12}  {item.metadata['title']}")
    print(f"{ranking.report.status}: {ranking.report.method or 'not graded'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

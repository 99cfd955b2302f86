"""Search workflow documentation, reranked with ``--rerank``.

    pip install -e ".[openai]"
    python examples/docs_search "how do I publish a new version to PyPI" --rerank

Without a key, a scripted model answers; README.md has what it prints.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# `python examples/docs_search` finds the modules beside that folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import missing_package  # noqa: F401 - says what to install
from docs_search.search import keyword_search, search


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="docs_search", description="Search the documentation.")
    parser.add_argument("query")
    parser.add_argument("--k", type=int, default=3, help="number of pages")
    parser.add_argument(
        "--rerank", action="store_true", help="let a language model order the pages"
    )
    options = parser.parse_args(arguments)
    if not options.rerank:
        for rank, page in enumerate(keyword_search(options.query, options.k), 1):
            print(f"{rank}  {page['path']}")
        return 0
    seen, ranking = search(options.query, options.k)
    for item in ranking:
        print(f"{item.rank}  {item.metadata['path']:28}  was {item.position + 1}")
    report = ranking.report
    print(f"{report.status}: {seen} pages ordered by {report.method or 'the keyword search'}")
    for issue in report.issues:
        print(f"  {issue.code}: {issue.message}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

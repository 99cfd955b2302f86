"""A reranked search in a temporary project, for review.

    pip install -e ".[openai]"
    cd examples && python -m planning_search.validate --output review.md

Searches for "database" with a limit of 5 and writes a Markdown file: the order before and after,
the project as the model sees it, and the report.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import missing_package  # noqa: F401 - says what to install
from planning_search.__main__ import rerank
from planning_search.search import STORE, Store

from secondpass import Ranking
from secondpass.extend import ProjectContext

QUERY = "database"
LIMIT = 5


def markdown(store: Store, ranking: Ranking) -> str:
    """The review of a ranking."""
    report = ranking.report
    lines = [f'# Search for "{ranking.query}"', ""]
    lines += [f"{report.status}: ordered by {report.method or 'the heuristic'}.", ""]
    lines += [f"- {issue.code}: {issue.message}" for issue in report.issues]
    lines += [""] * bool(report.issues)
    lines += ["| rank | tactic | heuristic rank | heuristic score | status |"]
    lines += ["| ---: | --- | ---: | ---: | --- |"]
    lines += [
        f"| {item.rank} | {item.id} | {item.position + 1} | {item.score:g} | {item.status} |"
        for item in ranking
    ]
    context = ProjectContext()({"nodes": store.nodes})
    lines += ["", "## The project as the model sees it", "", "```text", context, "```"]
    lines += ["", "## Report", "", "```json", json.dumps(report.to_dict(), indent=2), "```", ""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the search and write the file."""
    parser = argparse.ArgumentParser(prog="planning_search.validate")
    parser.add_argument("--output", type=Path, default=Path("review.md"), help="file to write")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(shutil.copytree(STORE, Path(folder) / "project"))
        store = Store.read(project)
        ranking = rerank(QUERY, store, limit=LIMIT, only_ready=False, strict=False)
    options.output.write_text(markdown(store, ranking), encoding="utf-8")
    print(f"written: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The search of a planning tool with reranking: the preset `tactician` from end to end.

Writes a small project and its tactics to a temporary folder, searches the tactics for "database"
with a keyword heuristic, reranks the best of them with a language model, and writes a Markdown file
for review.

    python examples/tactics.py                            asks OpenAI, with OPENAI_API_KEY
    python examples/tactics.py --base-url http://127.0.0.1:11434/v1 --model qwen3:8b
    python examples/tactics.py --output review.md

Without a key the order of the heuristic is kept, and the file says why.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from secondpass import Ranking, Reranker
from secondpass.prompts.context import ProjectContext

Record: TypeAlias = dict[str, Any]

QUERY = "database"
LIMIT = 5
WEIGHTS = {"id": 3, "output": 3, "tags": 2, "description": 1}
"""Weight of a query word in each field."""

NODES: list[Record] = [
    {"id": "goals", "type": "decision", "status": "completed",
     "output": "A web shop for 200 orders a day, run by two people"},
    {"id": "hosting", "type": "decision", "status": "completed",
     "output": "One rented server in Frankfurt; no managed services"},
    {"id": "schema-sketch", "type": "document", "status": "completed",
     "output": "Customers, orders, order lines and stock, with foreign keys"},
    {"id": "storage", "type": "decision", "status": "pending",
     "output": "Where orders and stock are kept"},
    {"id": "backups", "type": "procedure", "status": "pending",
     "output": "How orders survive the loss of the server"},
    {"id": "checkout", "type": "software", "status": "pending",
     "output": "The pages that take an order"},
]  # fmt: skip

TACTICS: list[Record] = [
    {"id": "tune-database", "type": "procedure", "output": "Faster database queries",
     "description": "Measure the slow queries of a database in use and index for them.",
     "tags": ["database", "performance"], "match": ["checkout"], "subtasks": ["measure", "index"]},
    {"id": "shard-database", "type": "procedure", "output": "A database on several servers",
     "description": "Split a database that has outgrown one machine.",
     "tags": ["database", "scale"], "match": ["hosting"], "subtasks": ["split", "route", "move"]},
    {"id": "choose-database", "type": "decision", "output": "The database product to use",
     "description": "Compare candidates by data model, operation and cost, and pick one.",
     "tags": ["storage"], "match": ["hosting", "schema-sketch"], "subtasks": ["compare", "pick"]},
    {"id": "create-tables", "type": "software", "output": "The tables of the database",
     "description": "Write the migration that makes a schema real.",
     "tags": ["database", "schema"], "match": ["storage"], "subtasks": ["write", "run"]},
    {"id": "back-up", "type": "procedure", "output": "Copies of the database elsewhere",
     "description": "Dump every night to another place, and restore once a month to see it work.",
     "tags": ["operation"], "match": ["storage"], "subtasks": ["dump", "copy", "restore"]},
    {"id": "rent-warehouse", "type": "decision", "output": "A place for the goods",
     "description": "Find floor space near the parcel hub.",
     "tags": ["stock"], "match": [], "subtasks": ["visit"]},
    {"id": "cache-pages", "type": "software", "output": "Pages that load at once",
     "description": "Keep rendered pages, so that the database is asked less.",
     "tags": ["performance"], "match": ["checkout"], "subtasks": ["choose", "expire"]},
]  # fmt: skip


def write_project(folder: Path) -> None:
    """Write a project as the planning tool stores it: a file of nodes, and a file per tactic."""
    (folder / "project.json").write_text(json.dumps({"nodes": NODES}), encoding="utf-8")
    (folder / "tactics").mkdir()
    for number, tactic in enumerate(TACTICS):
        path = folder / "tactics" / f"{number}-{tactic['id']}.json"
        path.write_text(json.dumps(tactic), encoding="utf-8")


def read_project(folder: Path) -> tuple[Record, list[Record]]:
    """Read the project and its tactics."""
    project = json.loads((folder / "project.json").read_text(encoding="utf-8"))
    paths = sorted((folder / "tactics").glob("*.json"))
    return project, [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def search(query: str, tactics: Sequence[Record]) -> list[Record]:
    """The tactics that contain a word of the query, with a ``score``, best first."""
    words = query.casefold().split()

    def score(tactic: Record) -> float:
        return sum(
            weight * str(tactic[field]).casefold().count(word)
            for field, weight in WEIGHTS.items()
            for word in words
        )

    results = [{**tactic, "score": score(tactic)} for tactic in tactics]
    return sorted((item for item in results if item["score"]), key=lambda item: -item["score"])


def markdown(results: Sequence[Record], ranking: Ranking, project: Mapping[str, Any]) -> str:
    """A review of the ranking."""
    report = ranking.report
    heuristic_ranks = {item["id"]: rank for rank, item in enumerate(results, start=1)}
    if report.status == "unchanged":
        summary = "The order of the heuristic is kept: nothing was reranked."
    else:
        summary = f"Reranked by {report.method}."
    lines = [f'# Search for "{ranking.query}"', "", summary, ""]
    lines += [f"- {issue.code}: {issue.message}" for issue in report.issues]
    lines += [""] * bool(report.issues)
    lines += [f"## The first {len(ranking)} of {len(results)}", ""]
    lines += ["| rank | tactic | heuristic rank | heuristic score | judged |"]
    lines += ["| ---: | --- | ---: | ---: | --- |"]
    lines += [
        f"| {item.rank} | {item.id} | {heuristic_ranks[str(item.id)]} | {item.score:g} | "
        f"{item.status} |"
        for item in ranking
    ]
    lines += ["", "## The project as the model sees it", ""]
    lines += ["```text", ProjectContext()(project), "```", "", "## Report", ""]
    lines += ["```json", json.dumps(report.to_dict(), indent=2), "```", ""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the search and write the file."""
    parser = argparse.ArgumentParser(description="A tactics search with a second pass.")
    parser.add_argument("--output", type=Path, default=Path("tactics.md"), help="file to write")
    parser.add_argument("--base-url", help="an OpenAI-compatible server instead of OpenAI's")
    parser.add_argument("--model", help="a model instead of the preset's")
    options = parser.parse_args(arguments)
    llm = {"base_url": options.base_url, "model": options.model}
    llm = {name: value for name, value in llm.items() if value is not None}
    reranker = Reranker.from_preset("tactician", method={"llm": llm})
    with tempfile.TemporaryDirectory() as folder:
        write_project(Path(folder))
        project, tactics = read_project(Path(folder))
    results = search(QUERY, tactics)
    try:
        ranking = reranker.rerank(QUERY, results, top_k=LIMIT, context=project)
    finally:
        reranker.close()
    options.output.write_text(markdown(results, ranking, project), encoding="utf-8")
    print(f"{ranking.report.status}: {', '.join(str(item.id) for item in ranking)}")
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

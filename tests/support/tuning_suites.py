"""Suites in which `lexical` gains much, or nothing."""

import json
from pathlib import Path

from secondpass import Candidate
from secondpass_evaluation import Suite, make_suite, write_qrels, write_queries

COUNT = 30


def suite_of(place: int, count: int = COUNT) -> Suite:
    """Queries of one word each, with the passage that has it at this place of six, from 0."""
    queries = {f"q{i}": f"word{i}" for i in range(count)}
    candidates = {}
    for i in range(count):
        texts = [f"nothing of that kind {j}" for j in range(6)]
        texts[place] = f"here is word{i}"
        candidates[f"q{i}"] = [
            Candidate(text, f"d{i}-{j}", 1.0 / (j + 1)) for j, text in enumerate(texts)
        ]
    qrels = {f"q{i}": {f"d{i}-{place}": 1} for i in range(count)}
    return make_suite("words", queries, qrels, candidates=candidates)


LAST = suite_of(5)
"""The relevant passage is last: a large gain is possible."""

FIRST = suite_of(0)
"""The relevant passage is first: no gain is possible."""


def folder_of(suite: Suite, path: Path) -> Path:
    """A new folder with the suite."""
    path.mkdir()
    write_queries(path / "queries.jsonl", suite.queries)
    write_qrels(path / "qrels.tsv", suite.qrels)
    lines = [
        {
            "query_id": query,
            "candidates": [{"id": it.id, "text": it.text, "score": it.score} for it in items],
        }
        for query, items in suite.candidates.items()
    ]
    (path / "candidates.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path

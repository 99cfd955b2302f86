"""A folder of a model's judgements, as `secondpass judge` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from secondpass import Candidate
from secondpass_evaluation import JudgedBy, write_qrels
from secondpass_evaluation.judging.folder import POOL, QRELS, pool_lines
from secondpass_evaluation.judging.labels import write_judged_by

QUERIES = {"q1": "pears", "q2": "plums", "q3": "figs"}
GRADES = {"q1": {"a": 2, "b": 0}, "q2": {"a": 1, "c": 3}, "q3": {"b": 1}}
POOLS = {
    query: tuple(Candidate(f"text {document}", document) for document in grades)
    for query, grades in GRADES.items()
}


def mark(**changes: Any) -> JudgedBy:
    """How the judgements were made."""
    settings: dict[str, Any] = {
        "model": "m", "template": "umbrela-1", "date": "2026-11-24T01:02:03Z", "sampled_from": 9,
        "queries": 3, "documents": 5, "grades": {0: 1, 1: 2, 2: 1, 3: 1}, "ungraded": 0,
        "pools": ("lexical",), "depth": 2, "seed": 0, "order": ("q2", "q1", "q3"),
    }  # fmt: skip
    return JudgedBy(**{**settings, **changes})


def write_folder(folder: Path) -> Path:
    """Write judgements, their mark and the texts; return the path of the judgements."""
    write_qrels(folder / QRELS, GRADES)
    write_judged_by(folder / QRELS, mark())
    (folder / POOL).write_text("".join(pool_lines(QUERIES, POOLS)))
    return folder / QRELS

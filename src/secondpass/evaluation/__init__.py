"""Measuring rankings: collections, runs, measures, and a retriever to measure against.

Nothing heavy is imported here. ir_measures, bm25s and numpy (extra ``evaluation``) are imported
where they are used.
"""

from secondpass.evaluation.errors import FormatError, MeasureError
from secondpass.evaluation.formats import (
    read_corpus,
    read_qrels,
    read_queries,
    read_run,
)
from secondpass.evaluation.measures import (
    DEFAULT_MEASURES,
    Evaluation,
    evaluate,
    ranking_to_run,
)
from secondpass.evaluation.retrieval import Embedder, HybridRetriever, Mode
from secondpass.evaluation.runs import Qrels, Run
from secondpass.evaluation.writing import write_corpus, write_qrels, write_queries, write_run

__all__ = [
    "DEFAULT_MEASURES",
    "Embedder",
    "Evaluation",
    "FormatError",
    "HybridRetriever",
    "MeasureError",
    "Mode",
    "Qrels",
    "Run",
    "evaluate",
    "ranking_to_run",
    "read_corpus",
    "read_qrels",
    "read_queries",
    "read_run",
    "write_corpus",
    "write_qrels",
    "write_queries",
    "write_run",
]

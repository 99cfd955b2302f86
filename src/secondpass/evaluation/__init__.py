"""Evaluation: suites, runs, measures, and comparisons of rerankers.

:func:`compare` measures first stages and rerankers on a :class:`Suite`. ir_measures, bm25s, numpy,
scipy and jinja2 (extra ``evaluation``) are imported on first use.
"""

from secondpass.evaluation.calibration.calibrating import calibrate
from secondpass.evaluation.calibration.result import Calibration
from secondpass.evaluation.comparison import Comparison
from secondpass.evaluation.costs import Cost
from secondpass.evaluation.drift import Drift, DriftChange, drift
from secondpass.evaluation.experiment import compare
from secondpass.evaluation.first_stages import FirstStage, Retriever
from secondpass.evaluation.journal import Journal
from secondpass.evaluation.judging.grading import Grader
from secondpass.evaluation.judging.inference import (
    Corrected,
    CorrectedResult,
    corrected_difference,
    corrected_mean,
    kappa,
)
from secondpass.evaluation.judging.judge import Judgements, judge
from secondpass.evaluation.judging.labels import JudgedBy
from secondpass.evaluation.loading import load_suite
from secondpass.evaluation.measures import (
    DEFAULT_MEASURES,
    Evaluation,
    evaluate,
    ranking_to_run,
)
from secondpass.evaluation.rerankers import Spec
from secondpass.evaluation.reranking import Progress
from secondpass.evaluation.results import Change, Result, Shown, Stability
from secondpass.evaluation.significance import (
    Difference,
    Test,
    difference,
    fewest_queries,
    holm,
)
from secondpass.evaluation.suites import Suite, make_suite
from secondpass.evaluation.tuning.records import Point, Trial
from secondpass.evaluation.tuning.selection import Held
from secondpass.evaluation.tuning.tuning import Tuning, tune
from secondpass.formats.errors import (
    FormatError,
    IndexFaultError,
    MeasureError,
    StaleIndexError,
)
from secondpass.formats.reading import (
    read_corpus,
    read_qrels,
    read_queries,
    read_run,
)
from secondpass.formats.runs import Qrels, Run
from secondpass.formats.writing import write_corpus, write_qrels, write_queries, write_run
from secondpass.search.embedders import Embedder
from secondpass.search.index import Index, open_index
from secondpass.search.retrieval import HybridRetriever, Mode

__all__ = [
    "DEFAULT_MEASURES",
    "Calibration",
    "Change",
    "Comparison",
    "Corrected",
    "CorrectedResult",
    "Cost",
    "Difference",
    "Drift",
    "DriftChange",
    "Embedder",
    "Evaluation",
    "FirstStage",
    "FormatError",
    "Grader",
    "Held",
    "HybridRetriever",
    "Index",
    "IndexFaultError",
    "Journal",
    "JudgedBy",
    "Judgements",
    "MeasureError",
    "Mode",
    "Point",
    "Progress",
    "Qrels",
    "Result",
    "Retriever",
    "Run",
    "Shown",
    "Spec",
    "Stability",
    "StaleIndexError",
    "Suite",
    "Test",
    "Trial",
    "Tuning",
    "calibrate",
    "compare",
    "corrected_difference",
    "corrected_mean",
    "difference",
    "drift",
    "evaluate",
    "fewest_queries",
    "holm",
    "judge",
    "kappa",
    "load_suite",
    "make_suite",
    "open_index",
    "ranking_to_run",
    "read_corpus",
    "read_qrels",
    "read_queries",
    "read_run",
    "tune",
    "write_corpus",
    "write_qrels",
    "write_queries",
    "write_run",
]

"""The public names of ``secondpass_evaluation``, which imports them when the first is used."""

from secondpass.formats.errors import FormatError
from secondpass.formats.reading import read_queries
from secondpass.types import Progress
from secondpass_evaluation.calibration.calibrating import calibrate
from secondpass_evaluation.calibration.result import Calibration
from secondpass_evaluation.comparison import Comparison
from secondpass_evaluation.errors import IndexFaultError, MeasureError, StaleIndexError
from secondpass_evaluation.experiment import compare
from secondpass_evaluation.first_stages import FirstStage, Retriever
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.judging.grading import Grader
from secondpass_evaluation.judging.inference import (
    Corrected,
    CorrectedResult,
    corrected_difference,
    corrected_mean,
    kappa,
)
from secondpass_evaluation.judging.judge import Judgements, judge
from secondpass_evaluation.judging.labels import JudgedBy
from secondpass_evaluation.loading import load_suite
from secondpass_evaluation.measures import DEFAULT_MEASURES, Evaluation, evaluate, ranking_to_run
from secondpass_evaluation.reading import Qrels, Run, read_corpus, read_qrels, read_run
from secondpass_evaluation.rerankers import Spec
from secondpass_evaluation.results import Change, Cost, Result, Shown, Stability
from secondpass_evaluation.search.embedders import Embedder, default_embedder
from secondpass_evaluation.search.index import Index, open_index
from secondpass_evaluation.search.indexing import build_index
from secondpass_evaluation.search.retrieval import HybridRetriever, Mode
from secondpass_evaluation.significance import Difference, Test, difference, fewest_queries, holm
from secondpass_evaluation.suites import Suite, make_suite
from secondpass_evaluation.tuning.result import Trial, Tuning
from secondpass_evaluation.tuning.selection import Held
from secondpass_evaluation.tuning.tuning import tune
from secondpass_evaluation.writing import write_corpus, write_qrels, write_queries, write_run

__all__ = [
    "DEFAULT_MEASURES",
    "Calibration",
    "Change",
    "Comparison",
    "Corrected",
    "CorrectedResult",
    "Cost",
    "Difference",
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
    "build_index",
    "calibrate",
    "compare",
    "corrected_difference",
    "corrected_mean",
    "default_embedder",
    "difference",
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

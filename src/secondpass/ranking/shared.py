"""Parts of a ranking, for the other packages."""

from secondpass.ranking.blending import Blend, minmax, with_weight, zscore
from secondpass.ranking.candidates import (
    comparable_id,
    first_stage_scores,
    kind_of,
    query_key,
    retrieval_score,
    stated_score,
    to_candidates,
)
from secondpass.ranking.diagnostics import log, log_exception, log_issues
from secondpass.ranking.explanations import Explanation
from secondpass.ranking.floors import Fit, Floor, FloorOn, Per, Probabilities
from secondpass.ranking.lexical import split_words
from secondpass.ranking.methods import INSTRUCTION_NOT_USED, asks, identity, precision_of
from secondpass.ranking.options import CallOptions, validate
from secondpass.ranking.outcome import completed
from secondpass.ranking.rendering import Rendering, well_formed
from secondpass.ranking.result import TEXT_LENGTH
from secondpass.ranking.scoring import TRUNCATED, rerank_scores_alone, scores_alone
from secondpass.ranking.windows import split

__all__ = [
    "INSTRUCTION_NOT_USED",
    "TEXT_LENGTH",
    "TRUNCATED",
    "Blend",
    "CallOptions",
    "Explanation",
    "Fit",
    "Floor",
    "FloorOn",
    "Per",
    "Probabilities",
    "Rendering",
    "asks",
    "comparable_id",
    "completed",
    "first_stage_scores",
    "identity",
    "kind_of",
    "log",
    "log_exception",
    "log_issues",
    "minmax",
    "precision_of",
    "query_key",
    "rerank_scores_alone",
    "retrieval_score",
    "scores_alone",
    "split",
    "split_words",
    "stated_score",
    "to_candidates",
    "validate",
    "well_formed",
    "with_weight",
    "zscore",
]

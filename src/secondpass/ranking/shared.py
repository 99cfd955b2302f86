"""Parts of a ranking, for the other packages."""

from secondpass.ranking.blending import Blend, with_weight
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
from secondpass.ranking.fits import identity, precision_of
from secondpass.ranking.floors import Fit, Floor, FloorOn, Per, Probabilities
from secondpass.ranking.judgements import INSTRUCTION_NOT_USED
from secondpass.ranking.methods import asks
from secondpass.ranking.options import CallOptions, validate
from secondpass.ranking.partial_results import completed
from secondpass.ranking.rendering import Rendering, is_blank, well_formed
from secondpass.ranking.result import TEXT_LENGTH
from secondpass.ranking.scoring import TRUNCATED, rerank_scores_alone, scores_alone
from secondpass.ranking.windows import split
from secondpass.ranking.words import WORDS_VERSION, split_words

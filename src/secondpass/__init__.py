"""A second ranking pass for retrieval: reranks candidates, loses none, reports what it did."""

from secondpass.errors import (
    ConfigurationError,
    InputError,
    MethodError,
    MissingExtraError,
    ModelLoadError,
    NotSerializableError,
    Problem,
    SecondPassError,
    StoreError,
)
from secondpass.limits import Limits
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage
from secondpass.ranking.fusion import fuse
from secondpass.ranking.observers import observe
from secondpass.ranking.packed import Packed, Source
from secondpass.ranking.result import Ranking, RerankError
from secondpass.reranker import Reranker
from secondpass.types import (
    Candidate,
    CandidateLike,
    EngineInfo,
    Issue,
    Ranked,
    Report,
    Request,
    Skipped,
    Stored,
    Threshold,
    Usage,
)

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "CandidateLike",
    "ConfigurationError",
    "CostPlan",
    "EngineInfo",
    "ExceededLimit",
    "InputError",
    "Issue",
    "Limits",
    "MethodError",
    "MissingExtraError",
    "ModelLoadError",
    "NotSerializableError",
    "Packed",
    "PlannedStage",
    "Problem",
    "Ranked",
    "Ranking",
    "Report",
    "Request",
    "RerankError",
    "Reranker",
    "SecondPassError",
    "Skipped",
    "Source",
    "StoreError",
    "Stored",
    "Threshold",
    "Usage",
    "fuse",
    "observe",
]

"""A second ranking pass for retrieval: reranks candidates, loses none, reports what it did."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from secondpass import adapters as adapters
    from secondpass import config as config
    from secondpass import extend as extend
else:  # or type checkers would accept any name
    _MODULES = ("adapters", "config", "extend")

    def __getattr__(name: str) -> Any:
        """A public module, which is imported when it is first used."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])

    def __dir__() -> list[str]:
        return [*__all__, *_MODULES, "__version__"]

"""The second ranking pass for retrieval: rerank candidates, lose none, say what happened."""

from secondpass.errors import (
    ConfigurationError,
    InputError,
    MethodError,
    MissingExtraError,
    ModelLoadError,
    NotSerializableError,
    RerankError,
    SecondPassError,
)
from secondpass.limits import Limits
from secondpass.reranker import Reranker
from secondpass.types import (
    Candidate,
    Issue,
    Ranked,
    Ranking,
    Report,
    Request,
    Usage,
)

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "ConfigurationError",
    "InputError",
    "Issue",
    "Limits",
    "MethodError",
    "MissingExtraError",
    "ModelLoadError",
    "NotSerializableError",
    "Ranked",
    "Ranking",
    "Report",
    "Request",
    "RerankError",
    "Reranker",
    "SecondPassError",
    "Usage",
]

"""For your own code: what a scorer, method, language model or provider is, and what it is made of.

Everything else below :mod:`secondpass` that is not exported here, by :mod:`secondpass` itself, by
:mod:`secondpass.adapters` or :mod:`secondpass.config` is private.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from secondpass.adapters.opentelemetry import instrument
from secondpass.asking.response_cache import ResponseCache
from secondpass.effects import Ask, Effect, Judgement, Method, Plan, Score, Task
from secondpass.errors import LLMError
from secondpass.formats.files import atomic_write
from secondpass.limits import Prices
from secondpass.llms.function import CallableLLM
from secondpass.llms.provider import Form, Provider, joined
from secondpass.prompts.context import ProjectContext
from secondpass.prompts.template import Prompting
from secondpass.questions import (
    LLM,
    Answer,
    Completion,
    Estimate,
    ListScores,
    Prompt,
    Question,
    RawScores,
    Scorer,
    Service,
    Span,
    Turn,
)
from secondpass.ranking.blending import Blend, Blended
from secondpass.ranking.floors import Fit, Floor, Probabilities
from secondpass.ranking.judgements import converted
from secondpass.ranking.observers import (
    MethodOperation,
    Observer,
    Operation,
    RankingOperation,
    Registration,
    RequestOperation,
    ScoringOperation,
)
from secondpass.ranking.ordering import LostInTheMiddle, Ordering, Tiers
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.terms import Number, Recency, Term, Value
from secondpass.ranking.when import Agreement, Range, When
from secondpass.ranking.windows import Passages
from secondpass.scorers.embedding.minilm import MODEL_NAME, MiniLM
from secondpass.services.client import Connection, token_count
from secondpass.services.json_http import StatusError, connect, parse_json
from secondpass.settings import configurable
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

if TYPE_CHECKING:
    from secondpass.exporting.export import export
    from secondpass.orderings.diversity import Diverse
    from secondpass.scorers.embedding.passage_store import PassageStore

_LATER = {
    "Diverse": "secondpass.orderings.diversity",
    "PassageStore": "secondpass.scorers.embedding.passage_store",
    "export": "secondpass.exporting.export",
}
"""Names whose modules are of no use to others, and would take a third of this import."""

__all__ = [
    "LLM",
    "MODEL_NAME",
    "Agreement",
    "Answer",
    "Ask",
    "Blend",
    "Blended",
    "CallableLLM",
    "Cascade",
    "Completion",
    "Connection",
    "Diverse",
    "Effect",
    "Estimate",
    "Fit",
    "Floor",
    "Form",
    "Graded",
    "Judgement",
    "LLMError",
    "ListScores",
    "Listwise",
    "LostInTheMiddle",
    "Method",
    "MethodOperation",
    "MiniLM",
    "Number",
    "Observer",
    "Operation",
    "Ordering",
    "PassageStore",
    "Passages",
    "Plan",
    "Prices",
    "Probabilities",
    "ProjectContext",
    "Prompt",
    "Prompting",
    "Provider",
    "Question",
    "Range",
    "RankingOperation",
    "RawScores",
    "Recency",
    "Registration",
    "Rendering",
    "RequestOperation",
    "ResponseCache",
    "Score",
    "Scorer",
    "ScoringOperation",
    "Service",
    "Span",
    "StatusError",
    "Task",
    "Term",
    "Tiers",
    "Turn",
    "Value",
    "When",
    "atomic_write",
    "configurable",
    "connect",
    "converted",
    "export",
    "instrument",
    "joined",
    "parse_json",
    "token_count",
]


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_LATER[name]), name)

    def __dir__() -> list[str]:
        return __all__

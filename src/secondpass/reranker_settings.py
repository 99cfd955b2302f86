"""The settings of rerankers as keyword arguments, and the presets, for type checkers and editors.

Their defaults and constraints are those of the constructor of :class:`secondpass.Reranker`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict

from secondpass.asking.response_cache import ResponseCache
from secondpass.effects import Method
from secondpass.limits import Limits
from secondpass.questions import Scorer
from secondpass.ranking.blending import Blend
from secondpass.ranking.floors import Floor, Probabilities
from secondpass.ranking.ordering import Ordering
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.terms import Term
from secondpass.ranking.when import When
from secondpass.ranking.windows import Passages

PresetName: TypeAlias = Literal[
    "accurate",
    "accurate_local",
    "accurate_multilingual",
    "blended_scores",
    "cheap",
    "cohere",
    "cross_encoder_hybrid",
    "decisions",
    "decisions_local",
    "default",
    "embedded",
    "fast",
    "graded_passages",
    "infinity",
    "jina",
    "lexical",
    "listwise_guided",
    "listwise_ids",
    "llama_cpp",
    "mixedbread",
    "multilingual",
    "multilingual_hub",
    "tei",
    "vllm",
    "voyage",
]
"""The presets, for completion in editors. A test compares it with `data/presets`."""


class ChangeableSettings(TypedDict, total=False):
    """Keyword arguments of ``Reranker.changed``."""

    depth: int | None
    blend: Blend | Mapping[str, Any] | None
    floor: Floor | Mapping[str, Any] | float | None
    probabilities: Probabilities | Mapping[str, Any] | None
    terms: Sequence[Term | Mapping[str, Any]]
    order: Ordering | Mapping[str, Any] | str | None
    orders: Mapping[str, Ordering | Mapping[str, Any] | str | None] | None
    when: When | Mapping[str, Any] | None
    render: Rendering | Mapping[str, Any] | None
    passages: Passages | Mapping[str, Any] | None
    limits: Limits | Mapping[str, Any] | None
    cache: ResponseCache | Mapping[str, Any] | PathLike[str] | str | None
    top_k: int | None
    tail: Literal["keep", "drop"]
    dedupe: bool
    candidate_multiplier: int | None
    strict: bool
    log_level: Literal["debug", "info", "warning", "error"]


class RerankerSettings(ChangeableSettings, total=False):
    """Keyword arguments of ``Reranker.from_preset``, beside the name."""

    method: Scorer | Method | Mapping[str, Any] | str
    fallback: Sequence[Scorer | Method | Mapping[str, Any] | str]

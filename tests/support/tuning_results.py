"""Hand-written results of a tuning."""

from __future__ import annotations

from typing import Any

from secondpass_evaluation.tuning.result import Trial, Tuning
from secondpass_evaluation.tuning.selection import Held


def held(mean: float = 0.1, p: float = 0.01, **changes: Any) -> Held:
    parts = {"low": mean - 0.05, "high": mean + 0.05, "deviation": 0.2, "changed": 7}
    return Held(**{"mean": mean, "p": p, **parts, **changes})


CONFIG = {"method": {"type": "graded", "llm": {"type": "openai", "api_key": "sk-secret"}}}
ADOPTED = Trial(
    "words", "adopted", config=CONFIG, variants=6, setting="depth 20, no blend", mean=0.6,
    held=held(), seconds=0.0123, cost=0.002, statuses={"ok": 20},
)  # fmt: skip
TRIED = Trial(
    "other", "tried", "its gain may be chance", variants=3, setting="depth 5, no blend", mean=0.5,
    held=held(-0.1, 0.9, low=-0.2, high=-0.01), seconds=0.5,
)  # fmt: skip
NOT_TRIED = Trial("far", "not_tried", "no key")


def tuning(**changes: Any) -> Tuning:
    """A reranker was adopted, one was not, and one was not tried."""
    parts: dict[str, Any] = {
        "suite": "owls", "queries": 20, "stage": "lexical", "measure": "nDCG@10", "baseline": 0.4,
        "adopted": "words", "config": CONFIG, "gain": held(), "more_queries": None,
        "detectable": None, "trials": (ADOPTED, TRIED, NOT_TRIED),
        "settings": {
            "date": "2026-11-24", "smallest_gain": 0.01, "confidence": 0.9, "folds": 5, "seed": 0,
            "versions": {"secondpass": "1.0"},
        },
    }  # fmt: skip
    return Tuning(**{**parts, **changes})


def kept(**changes: Any) -> Tuning:
    """The first stage was kept, because no gain was sure."""
    parts = {"adopted": None, "config": None, "gain": held(), "trials": (TRIED, NOT_TRIED)}
    return tuning(**{**parts, **changes})

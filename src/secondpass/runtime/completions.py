"""Validates what services return."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from secondpass.effects import Completion
from secondpass.errors import LLMError, with_article
from secondpass.scoring import in_range, to_float

_MAX_TOKENS = 10**12
"""A larger count is wrong, and one of hundreds of digits cannot be converted to float."""


def validated(result: Any) -> Completion:
    """The result of a service as a completion.

    Invalid token counts, units and log probabilities become None.

    Raises:
        LLMError: it is not a completion, or its text is not a string.
    """
    if not isinstance(result, Completion):
        message = f"the model returned {with_article(type(result).__name__)}, not a Completion"
        raise LLMError(message, "bad_response")
    if not isinstance(result.text, str):
        message = (
            f"the text of the reply is {with_article(type(result.text).__name__)}, not a string"
        )
        raise LLMError(message, "bad_response")
    return replace(
        result,
        input_tokens=_count(result.input_tokens),
        output_tokens=_count(result.output_tokens),
        logprobs=_logprobs(result.logprobs),
        units=_units(result.units),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


def _units(value: Any) -> float | None:
    units = to_float(value)
    return units if units is not None and 0 <= units <= _MAX_TOKENS else None


def _logprobs(value: Any) -> tuple[dict[str, float], ...] | None:
    """The log probabilities of every token; None if one is no log probability."""
    if not isinstance(value, list | tuple) or not value:
        return None
    tokens = []
    for alternatives in value:
        if not isinstance(alternatives, Mapping) or not alternatives:
            return None
        token = {}
        for text, reported in alternatives.items():
            number = to_float(reported)
            if not isinstance(text, str) or number is None or not math.isfinite(number):
                return None
            clipped = in_range(number, (-math.inf, 0.0))
            if clipped is None:
                return None
            token[text] = clipped
        tokens.append(token)
    return tuple(tokens)

"""TREC, BEIR and JSON lines. JSON is written for every reader."""

from __future__ import annotations

import json
import math
from typing import Any

_UNSAFE = [
    *map(chr, range(0x7F, 0xA0)),
    *"\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
]
"""Characters that JSON does not escape: ends of lines, and what a terminal obeys."""


def to_json(value: Any, indent: int | None = None) -> str:
    """Serialise as JSON; NaN and infinities become null.

    Without an indent it is one line for every reader, also for those that end lines at Unicode's
    separators, such as Node's readline. It can be shown on a terminal.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False)
    for character in _UNSAFE:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

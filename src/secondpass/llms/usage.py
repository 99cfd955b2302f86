"""The tokens of a reply, as providers, servers and frameworks report them."""

from __future__ import annotations

from typing import Any

from secondpass.services.client import token_count

_INPUT = ("prompt_tokens", "input_tokens", "prompt_token_count")
_OUTPUT = ("completion_tokens", "output_tokens", "candidates_token_count")
_TOTAL = ("total_tokens", "total_token_count")

_CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens", "cache_write_input_tokens")
"""Of Anthropic and Bedrock, whose input tokens are only those beside the cache."""
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
"""Of OpenAI, and of what writes other usage in its form: the input tokens include the cached."""
_TOOLS = ("tool_use_prompt_token_count",)
_THOUGHTS = ("thoughts_token_count",)
"""Of Google, whose counts of prompt and candidates leave these out."""


def token_counts(usage: Any) -> tuple[int | None, int | None]:
    """All input tokens and all output tokens of a mapping or an object; None if not reported.

    Cached tokens are input, and tokens of thinking are output, whether the counts of these include
    them or not. What a total has beyond both is output, too.
    """
    read, written = _first(usage, _INPUT), _first(usage, _OUTPUT)
    if read is not None:
        includes_cached = any(part(usage, name) is not None for name in _DETAILS)
        read += _sum(usage, _TOOLS if includes_cached else (*_TOOLS, *_CACHED))
    least = _sum(usage, _THOUGHTS) + (written or 0)
    total = _first(usage, _TOTAL)
    if total is not None and read is not None:
        least = max(least, total - read)
    return read, least if written is not None or least > 0 else None


def part(holder: Any, name: str) -> Any:
    """A value of a mapping or an attribute of an object; None if it is absent."""
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def _counts(usage: Any, names: tuple[str, ...]) -> list[int]:
    found = (token_count(part(usage, name)) for name in names)
    return [count for count in found if count is not None]


def _first(usage: Any, names: tuple[str, ...]) -> int | None:
    return next(iter(_counts(usage, names)), None)


def _sum(usage: Any, names: tuple[str, ...]) -> int:
    return sum(_counts(usage, names))

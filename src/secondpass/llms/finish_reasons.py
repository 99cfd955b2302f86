"""Why a model ended its reply, in the words of providers, servers and frameworks."""

from __future__ import annotations

from secondpass.errors import LLMError

_LENGTH = frozenset(
    {
        "length",  # OpenAI, and servers with its API
        "model_length",  # Mistral
        "max_tokens",  # Google, Anthropic
        "model_context_window_exceeded",  # Anthropic
    }
)
_REFUSED = frozenset({"content_filter", "refusal", "safety"})


def is_truncated(reason: object) -> bool:
    """Whether a reply ends because a limit of tokens was reached; ``reason`` may be anything."""
    return _named(reason) in _LENGTH


def check_answered(reason: object) -> None:
    """Raise an LLMError if the model refused to answer."""
    if _named(reason) in _REFUSED:
        raise LLMError("the model refused to answer", "content_filter")


def _named(reason: object) -> str:
    """The name of a reason, which may be a member of an enum."""
    name = getattr(reason, "value", reason)
    return name.lower() if isinstance(name, str) else ""

"""Which methods ask a language model."""

from __future__ import annotations

from secondpass.effects import Method


def asks(method: Method) -> bool:
    """Whether a method asks a language model, as it states by ``language_models``."""
    return bool(getattr(method, "language_models", ()))

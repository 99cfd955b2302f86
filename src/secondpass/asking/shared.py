"""Dry runs and stored answers, for the other packages."""

from secondpass.asking.planning import Expected, total
from secondpass.asking.response_cache import ResponseCache

__all__ = [
    "Expected",
    "ResponseCache",
    "total",
]

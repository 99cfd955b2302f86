"""Dry runs, stored answers and the end of rerankers, for the other packages."""

from secondpass.asking.expected_use import Expected, total
from secondpass.asking.life_cycle import aclose_all, close_all
from secondpass.asking.response_cache import ResponseCache

__all__ = [
    "Expected",
    "ResponseCache",
    "aclose_all",
    "close_all",
    "total",
]

"""Deprecated: import from ``secondpass.search.retrieval``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.search.retrieval")

"""Deprecated: import from ``secondpass.search.index`` or ``.indexing``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.search.index", "secondpass.search.indexing")

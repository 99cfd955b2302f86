"""Deprecated: import from ``secondpass.search.documents``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.search.documents")

"""Deprecated: import from ``secondpass.search.fusion``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.search.fusion")

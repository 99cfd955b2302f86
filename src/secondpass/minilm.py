"""Deprecated: import from ``secondpass.scorers.minilm``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.scorers.minilm")

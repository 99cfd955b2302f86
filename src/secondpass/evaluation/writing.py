"""Deprecated: import from ``secondpass.formats.writing``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.formats.writing")

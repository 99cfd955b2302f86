"""Deprecated: import from ``secondpass.formats.reading``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.formats.reading", "secondpass.formats.writing")

"""Deprecated: import from ``secondpass.formats.runs``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.formats.runs")

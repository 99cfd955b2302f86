"""Deprecated: import from ``secondpass.evaluation.report.svg``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.evaluation.report.svg")

"""Deprecated: import from ``secondpass.runtime.diagnostics``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.runtime.diagnostics")

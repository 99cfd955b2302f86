"""Deprecated: import from ``secondpass.runtime``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.runtime.drivers", "secondpass.runtime.scheduler")

"""Deprecated: import from ``secondpass.runtime.drivers``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.runtime.drivers")

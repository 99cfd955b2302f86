"""Deprecated: import from ``secondpass.services.echoes``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.services.echoes")

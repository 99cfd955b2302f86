"""Deprecated: import from ``secondpass.services.diagnosis``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.services.diagnosis")

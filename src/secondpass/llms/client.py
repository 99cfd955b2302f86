"""Deprecated: import from ``secondpass.services.client``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.services.client")

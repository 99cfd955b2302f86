"""Deprecated: import from ``secondpass.services.provider_errors``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.services.provider_errors")

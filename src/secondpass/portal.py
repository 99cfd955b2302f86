"""Deprecated: import from ``secondpass.concurrency``."""

from secondpass._moved import moved

__getattr__ = moved(__name__, "secondpass.concurrency.portal", "secondpass.concurrency.threads")

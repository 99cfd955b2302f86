"""Reports without matplotlib: plots take most of a report's time."""

import sys

import pytest


def without_plots(patch: pytest.MonkeyPatch) -> None:
    """Make matplotlib appear not to be installed."""
    patch.setitem(sys.modules, "matplotlib", None)

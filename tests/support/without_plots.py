"""Reports as they are without matplotlib: drawing the plots takes most of a report's time."""

import sys

import pytest


def without_plots(patch: pytest.MonkeyPatch) -> None:
    """Let matplotlib seem not to be installed."""
    patch.setitem(sys.modules, "matplotlib", None)

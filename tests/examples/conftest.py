"""One embedded model for all examples, whose deadlines a busy machine keeps up with."""

import pytest

from remembered_model import remember
from unhurried import _unhurried

__all__ = ["_unhurried"]


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch):
    remember(monkeypatch)

"""One embedded model for all examples."""

import pytest

from remembered_model import remember


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch):
    remember(monkeypatch)

"""One embedded model for all comparisons."""

import pytest

from remembered_model import remember


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch):
    remember(monkeypatch)

"""One embedded model for all comparisons, and a provider of language models."""

import pytest

from fake_provider import FakeProvider
from remembered_model import remember


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch):
    remember(monkeypatch)


@pytest.fixture
def provider():
    with FakeProvider() as running:
        yield running

"""Pauses between attempts take no time."""

import pytest

from secondpass.asking import dispatch as module
from secondpass.services.throttle import Throttle


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.01)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses, which take no time here and have no jitter."""
    monkeypatch.undo()
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    monkeypatch.setattr(module.random, "uniform", lambda _, high: high)
    monkeypatch.setattr(Throttle, "pause", lambda *_: 0.0)
    return pauses

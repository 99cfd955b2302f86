"""Deadlines of examples are longer here: a busy machine keeps up with them, too."""

from collections.abc import Iterator
from typing import Any

import pytest

from secondpass import reranker
from secondpass.limits import Limits
from secondpass.runtime.ledger import Ledger
from secondpass.settings import changed

_FACTOR = 30


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def ledger(limits: Limits | None = None, **settings: Any) -> Ledger:
        limits = limits or Limits()
        if limits.deadline is not None:
            limits = changed(limits, deadline=_FACTOR * limits.deadline)
        return Ledger(limits, **settings)

    monkeypatch.setattr(reranker, "Ledger", ledger)

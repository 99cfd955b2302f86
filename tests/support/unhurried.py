"""Deadlines of examples are longer here: a busy machine keeps up with them, too."""

from typing import Any

import pytest

from secondpass import reranker
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger
from secondpass.settings import changed

_FACTOR = 30


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(limits: Limits | None = None, **settings: Any) -> Ledger:
        if limits is None or limits.deadline is None:
            return Ledger(limits or Limits(), **settings)
        return Ledger(changed(limits, deadline=_FACTOR * limits.deadline), **settings)

    monkeypatch.setattr(reranker, "Ledger", longer)

"""Deadlines of examples are longer here: a busy machine keeps up with them, too."""

from collections.abc import Iterator

import pytest

from secondpass.limits import Limits
from secondpass.settings import changed

_FACTOR = 30


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    until = Limits.until

    def longer(limits: Limits, deadline: float | None) -> Limits:
        found = until(limits, deadline)
        if found.deadline is None:
            return found
        return changed(found, deadline=_FACTOR * found.deadline)

    monkeypatch.setattr(Limits, "until", longer)

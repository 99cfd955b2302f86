"""Exceptions of signal handlers, wherever they come in a synchronous call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contract import QUERY, WAYS, Numbers, numbered
from interrupts import Interrupting
from secondpass.concurrency import locks

SECONDS = 60
AT_LEAST = 60
"""Places per entry point."""


def held_locks() -> int:
    held = [lock for lock in list(locks._locks) if not lock.acquire(blocking=False)]
    for lock in list(locks._locks):
        if lock not in held:
            lock.release()
    return len(held)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_call_that_is_interrupted_at_any_place(adapter: Any, way: str) -> None:
    """Later calls return; they are of another thread, as one that holds a lock does not wait."""
    if way not in WAYS[adapter.name]["sync"]:
        pytest.skip("asynchronous")
    component = adapter.make({"method": Numbers()})

    def act() -> Any:
        return adapter.run(component, way, QUERY, numbered(adapter, 1, 2, 3))

    def accepts(file: str) -> bool:
        return "secondpass" in file and "/tests/" not in file

    for _ in range(2):
        expected = [adapter.carried(one).text for one in act()[0]]
    with Interrupting(1 << 40, accepts) as counting:
        act()
    step = max(1, ((1 << 40) - counting.left) // AT_LEAST)
    place, interrupted = 0, True
    with ThreadPoolExecutor(1) as others:
        while interrupted:
            with Interrupting(place, accepts) as interrupting:
                act()
            interrupted = interrupting.raised
            assert others.submit(held_locks).result(SECONDS) == 0
            documents, _ = others.submit(act).result(SECONDS)
            assert [adapter.carried(one).text for one in documents] == expected
            place += step
    assert place > AT_LEAST

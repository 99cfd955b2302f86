"""Passes in batches: order, size of batches, and the log."""

import asyncio

import pytest

from secondpass.asking import drivers
from secondpass.asking.gate import Gate
from secondpass.asking.scheduler import Pass
from secondpass.limits import Limits
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.result import Ranking
from secondpass.types import Report


def passes(count, started, issues=()):
    """Passes that ask nothing; ``started`` gets the number of each that is taken."""

    def plan(number):
        return Ranking(str(number), (), Report("ok", issues=issues))
        yield

    for number in range(count):
        started.append(number)
        yield Pass(plan(number), Ledger(Limits()), Gate(1))


def run(asynchronous, items, log_level="warning"):
    if asynchronous:
        return asyncio.run(drivers.arun_all(items, log_level))
    return drivers.run_all(items, log_level)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_rankings_are_in_the_order_of_the_passes(asynchronous):
    rankings = run(asynchronous, passes(150, []))
    assert [ranking.query for ranking in rankings] == [str(number) for number in range(150)]
    assert run(asynchronous, passes(0, [])) == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_few_passes_are_taken_at_a_time(asynchronous, monkeypatch):
    started, taken = [], []
    drive, adrive = drivers.run, drivers.arun

    def counted(items):
        taken.append((len(items), len(started)))
        return drive(items)

    async def acounted(items):
        taken.append((len(items), len(started)))
        return await adrive(items)

    monkeypatch.setattr(drivers, "run", counted)
    monkeypatch.setattr(drivers, "arun", acounted)
    run(asynchronous, passes(130, started))
    assert taken == [(64, 64), (64, 128), (2, 130)]

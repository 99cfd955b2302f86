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


@pytest.mark.parametrize("count", [130, 0])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_few_passes_are_taken_at_a_time_and_their_rankings_are_in_order(asynchronous, count):
    taken = []

    def plan(number):
        return Ranking(f"{number} of {len(taken)}", (), Report("ok"))
        yield

    def passes():
        for number in range(count):
            taken.append(number)
            yield Pass(plan(number), Ledger(Limits()), Gate(1))

    if asynchronous:
        rankings = asyncio.run(drivers.arun_all(passes(), "warning"))
    else:
        rankings = drivers.run_all(passes(), "warning")
    expected = [f"{number} of {min(64 + number // 64 * 64, count)}" for number in range(count)]
    assert [ranking.query for ranking in rankings] == expected

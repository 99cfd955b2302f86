"""The budget of a job holds, whoever is killed, and nobody waits for ever."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass_ray import coordination
from secondpass_ray.coordination import SPENT, Amounts, Budget, Coordinator


def coordinated(folder, budget, work, spent=None):
    async def run():
        coordinator = Coordinator(str(folder), budget, spent or Amounts())
        return await asyncio.wait_for(work(coordinator), 60)

    return asyncio.run(run())


def spent_in(folder):
    return Amounts(**json.loads((folder / SPENT).read_text()))


@given(
    budget=st.integers(1, 200),
    blocks=st.lists(
        st.lists(st.tuples(st.integers(1, 30), st.floats(0, 1)), min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    ),
    killed=st.sets(st.integers(0, 5)),
)
def test_a_budget_holds(tmp_path_factory, budget, blocks, killed):
    folder = tmp_path_factory.mktemp("job")
    really = []

    async def worker(coordinator, block, rows):
        for attempt in (1, 2):
            attempts, may_begin = await coordinator.begin(block)
            assert attempts == attempt
            if not may_begin:
                return 0
            fitting = await coordinator.hold(block, [Amounts(most) for most, _ in rows])
            took = sum(most * share for most, share in rows[:fitting])
            really.append(took)
            await asyncio.sleep(0)
            if block in killed and attempt == 1:
                continue  # it begins again, and has not said what it took
            await coordinator.settle(block, Amounts(took))
            return fitting
        return 0

    async def work(coordinator):
        return await asyncio.gather(
            *(worker(coordinator, number, rows) for number, rows in enumerate(blocks))
        )

    done = coordinated(folder, Budget(tokens=budget), work)
    assert sum(really) <= budget
    if any(done):
        assert sum(really) <= spent_in(folder).tokens + 1e-6 <= budget + 2e-6
    if sum(most for rows in blocks for most, _ in rows) * 2 <= budget:
        assert done == [len(rows) for rows in blocks]


def test_rows_wait_for_what_others_hold_but_do_not_spend(tmp_path):
    async def work(coordinator):
        assert await coordinator.hold(0, [Amounts(80)]) == 1
        waiting = asyncio.ensure_future(coordinator.hold(1, [Amounts(60)]))
        await asyncio.sleep(0)
        assert not waiting.done()
        await coordinator.settle(0, Amounts(10))
        assert await waiting == 1

    coordinated(tmp_path, Budget(tokens=100), work)
    assert spent_in(tmp_path).tokens == 70


def test_rows_do_not_wait_for_ever_for_what_a_lost_worker_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(coordination, "_LONGEST_WAIT", 0.05)

    async def work(coordinator):
        assert await coordinator.hold(0, [Amounts(80)]) == 1
        waiting = [coordinator.hold(block, [Amounts(60)]) for block in (1, 2)]
        assert await asyncio.gather(*waiting) == [0, 0]
        assert await coordinator.begin(0) == (1, False)

    coordinated(tmp_path, Budget(tokens=100), work)
    assert spent_in(tmp_path).tokens == 80


def test_what_was_spent_before_counts(tmp_path):
    async def work(coordinator):
        return await coordinator.hold(0, [Amounts(0, 1.0)] * 3), await coordinator.begin(1)

    fitting, (_, may_begin) = coordinated(tmp_path, Budget(cost=3.0), work, Amounts(0, 1.0))
    assert (fitting, may_begin) == (2, False)


@pytest.mark.parametrize("swapped", [False, True])
def test_more_tokens_do_not_hide_a_higher_cost(swapped):
    a, b = Amounts(5, 1.0), Amounts(3, 2.0)
    assert (b.or_more(a) if swapped else a.or_more(b)) == Amounts(5, 2.0)

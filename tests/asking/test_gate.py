"""The gate: slots per event loop, and nested waits that would never end."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from frozen_heap import frozen_heap  # noqa: F401
from secondpass.asking.gate import Gate, LoopGates
from secondpass.errors import NestedCallError


def test_each_loop_has_its_slots():
    gates = LoopGates(1)

    async def same():
        return gates.in_this_loop(), gates.in_this_loop()

    first, again = asyncio.run(same())
    assert first is again
    other, _ = asyncio.run(same())
    assert other is not first


class Crowd:
    """Counts the most that are within a slot at once."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inside = self.most = 0

    async def enter(self, slots):
        async with slots.taken():
            with self.lock:
                self.inside += 1
                self.most = max(self.most, self.inside)
            await asyncio.sleep(0.001)
            with self.lock:
                self.inside -= 1

    async def many(self, slots_of):
        await asyncio.gather(*(self.enter(slots_of()) for _ in range(20)))


@pytest.mark.usefixtures("frozen_heap")
def test_gate_lets_its_width_through_and_forgets_closed_loops():
    gates, crowd = LoopGates(3), Crowd()
    for _ in range(5):  # it serves one loop after the other
        asyncio.run(crowd.many(gates.in_this_loop))
    assert crowd.most == 3
    gc.collect()
    assert len(gates._gates) <= 1


def test_nested_slots_leave_nothing_behind():
    """Two hold slots and want another each: the first waits, and gets that of the second."""
    gates = LoopGates(2)
    refused, ended = [], []

    async def outer(number, inside):
        async with gates.in_this_loop().taken():
            inside.release()
            await both.acquire()
            try:
                await asyncio.create_task(inner(number))
            except NestedCallError:
                refused.append(number)
        # Its slot was released: it may take one again, and wait for it.
        async with gates.in_this_loop().taken():
            ended.append(number)

    async def inner(number):
        async with gates.in_this_loop().taken():
            ended.append(number)

    async def main():
        nonlocal both
        inside, both = asyncio.Semaphore(0), asyncio.Semaphore(0)
        tasks = [asyncio.create_task(outer(number, inside)) for number in range(2)]
        for _ in tasks:
            await inside.acquire()
        for _ in tasks:
            both.release()
        await asyncio.gather(*tasks)
        slots = gates.in_this_loop()
        return slots._blocked, slots._holders

    both = None
    assert asyncio.run(main()) == ([], {})
    assert refused == [1]
    assert sorted(ended) == [0, 0, 1]


def test_released_slot_does_not_block():
    gates = LoopGates(1)

    async def hold(go):
        async with gates.in_this_loop().taken():
            await go.wait()

    async def main():
        async with gates.in_this_loop().taken():
            pass
        go = asyncio.Event()
        other = asyncio.create_task(hold(go))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(hold(go))  # inherits the slot above, which is over
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(other, waiting)

    asyncio.run(main())


def test_rankings_take_turns():
    """A short ranking does not wait for all questions of a long one."""
    gate, order = Gate(1), []

    class Ranking:
        def __init__(self, name):
            self.name = name

    async def ask(ranking):
        async with gate.taken(ranking):
            order.append(ranking.name)
            await asyncio.sleep(0)

    async def main():
        long, short = Ranking("long"), Ranking("short")
        await asyncio.gather(*(ask(ranking) for ranking in [long] * 6 + [short] * 2))

    asyncio.run(main())
    assert order == ["long", "short", "long", "short", "long", "long", "long", "long"]


def test_slots_are_those_of_all_event_loops():
    gate, crowd = Gate(2), Crowd()
    with ThreadPoolExecutor(4) as pool:
        loops = [pool.submit(asyncio.run, crowd.many(lambda: gate)) for _ in range(4)]
        for future in loops:
            future.result(60)
    assert crowd.most == 2
    assert not gate._holders


def test_a_cancelled_wait_leaves_no_slot():
    gate = Gate(1)

    async def main():
        async with gate.taken():
            waiting = asyncio.create_task(gate.taken().__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with gate.taken():
            pass

    asyncio.run(main())
    assert (gate._holders, gate._lines, gate._turns) == ({}, {}, [])


def test_a_slot_that_nothing_refers_to_is_given_to_others():
    """Its release did not happen: an exception of a signal handler may come at any line."""
    gate = Gate(1)

    async def main():
        await gate.take(None)
        async with gate.taken():
            pass

    asyncio.run(asyncio.wait_for(main(), 10))


@pytest.mark.parametrize("closed", [False, True])
def test_slots_of_a_loop_that_does_not_run_are_given_to_others(closed):
    gate, ended = Gate(2), []
    loop = asyncio.new_event_loop()

    async def hold(number):
        async with gate.taken():
            await asyncio.sleep(0.01)
            ended.append(number)

    async def begin():
        tasks = [asyncio.create_task(hold(number)) for number in range(3)]
        await asyncio.sleep(0)
        return tasks

    tasks = loop.run_until_complete(begin())
    if closed:
        loop.close()
    asyncio.run(asyncio.wait_for(hold("other"), 10))
    assert ended == ["other"]
    if not closed:
        loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks), 10))
        loop.close()
        assert sorted(ended[1:]) == [0, 1, 2]
    assert not gate._lines
    for task in tasks:
        task._log_destroy_pending = False


def test_a_turn_takes_the_same_work_however_many_rankings_wait():
    """In turns of rankings that were looked at, which is what a wait of many cost."""
    looked_at = []

    class Counted(Gate):
        def _turn(self, ranking):
            looked_at.append(ranking)
            return super()._turn(ranking)

    class Ranking:
        pass

    async def main(gate):
        async def call(ranking):
            async with gate.taken(ranking):
                await asyncio.sleep(0)

        rankings = [Ranking() for _ in range(500)]
        await asyncio.gather(*(call(ranking) for ranking in rankings for _ in range(2)))

    gate = Counted(8)
    asyncio.run(asyncio.wait_for(main(gate), 60))
    assert len(looked_at) < 10 * 1000
    assert not gate._turns

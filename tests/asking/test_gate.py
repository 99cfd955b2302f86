"""The gate: slots per event loop, and nested waits that would never end."""

import asyncio

from secondpass.asking.gate import Gate
from secondpass.errors import NestedCallError


def test_closed_loops_are_forgotten():
    gate = Gate(1)

    async def wait_for_a_slot():
        async def hold():
            async with gate.in_this_loop():
                await asyncio.sleep(0)

        await asyncio.gather(hold(), hold())

    for _ in range(5):
        asyncio.run(wait_for_a_slot())
    assert len(gate._slots) == 1


def test_nested_slots_leave_nothing_behind():
    """Two hold slots and want another each: the first waits, and gets that of the second."""
    gate = Gate(2)
    refused, ended = [], []

    async def outer(number, inside):
        async with gate.in_this_loop():
            inside.release()
            await both.acquire()
            try:
                await asyncio.create_task(inner(number))
            except NestedCallError:
                refused.append(number)
        # Its slot was released: it may take one again, and wait for it.
        async with gate.in_this_loop():
            ended.append(number)

    async def inner(number):
        async with gate.in_this_loop():
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
        slots = gate.in_this_loop()
        return slots._blocked, slots._holders

    both = None
    assert asyncio.run(main()) == ([], {})
    assert refused == [1]
    assert sorted(ended) == [0, 0, 1]


def test_released_slot_does_not_block():
    gate = Gate(1)

    async def hold(go):
        async with gate.in_this_loop():
            await go.wait()

    async def main():
        async with gate.in_this_loop():
            pass
        go = asyncio.Event()
        other = asyncio.create_task(hold(go))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(hold(go))  # inherits the slot above, which is over
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(other, waiting)

    asyncio.run(main())

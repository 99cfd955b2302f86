"""The gate: slots per event loop, and nested waits that would never end."""

import asyncio

from secondpass.asking.gate import Gate
from secondpass.errors import NestedCallError


def test_each_loop_has_its_slots():
    gate = Gate(1)

    async def same():
        return gate.in_this_loop(), gate.in_this_loop()

    first, again = asyncio.run(same())
    assert first is again
    other, _ = asyncio.run(same())
    assert other is not first


def test_gate_lets_its_width_through():
    gate, under_way, most = Gate(3), 0, 0

    async def one():
        nonlocal under_way, most
        async with gate.in_this_loop().taken():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

    async def many():
        await asyncio.gather(*(one() for _ in range(20)))

    for _ in range(2):  # a gate serves one loop after the other
        asyncio.run(many())
    assert most == 3


def test_closed_loops_are_forgotten():
    gate = Gate(1)

    async def wait_for_a_slot():
        async def hold():
            async with gate.in_this_loop().taken():
                await asyncio.sleep(0)

        await asyncio.gather(hold(), hold())

    for _ in range(5):
        asyncio.run(wait_for_a_slot())
    assert len(gate._slots) <= 1


def test_nested_slots_leave_nothing_behind():
    """Two hold slots and want another each: the first waits, and gets that of the second."""
    gate = Gate(2)
    refused, ended = [], []

    async def outer(number, inside):
        async with gate.in_this_loop().taken():
            inside.release()
            await both.acquire()
            try:
                await asyncio.create_task(inner(number))
            except NestedCallError:
                refused.append(number)
        # Its slot was released: it may take one again, and wait for it.
        async with gate.in_this_loop().taken():
            ended.append(number)

    async def inner(number):
        async with gate.in_this_loop().taken():
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
        async with gate.in_this_loop().taken():
            await go.wait()

    async def main():
        async with gate.in_this_loop().taken():
            pass
        go = asyncio.Event()
        other = asyncio.create_task(hold(go))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(hold(go))  # inherits the slot above, which is over
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(other, waiting)

    asyncio.run(main())

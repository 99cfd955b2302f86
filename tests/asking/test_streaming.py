"""The generator of results of work that goes on."""

import asyncio

import pytest

from secondpass.asking.streaming import stream


def run(act):
    async def bounded():
        async with asyncio.timeout(60):
            return await act()

    return asyncio.run(bounded())


@pytest.mark.parametrize("error", [LookupError("wrong"), asyncio.CancelledError()])
def test_an_error_is_raised_after_the_results(error):
    async def work(listener):
        listener(1)
        await asyncio.sleep(0)
        listener(2)
        raise error

    async def act():
        results = stream(work)
        found = [await anext(results), await anext(results)]
        with pytest.raises(type(error)):
            await anext(results)
        with pytest.raises(StopAsyncIteration):
            await anext(results)
        return found

    assert run(act) == [1, 2]


def test_closing_waits_until_the_work_is_cancelled():
    ended = []

    async def work(listener):
        listener(1)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def act():
        results = stream(work)
        await anext(results)
        await results.aclose()
        assert ended == [True]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(act)


def test_an_error_that_nobody_waits_for_is_not_logged(caplog):
    async def work(listener):
        listener(1)
        raise LookupError("wrong")

    async def act():
        results = stream(work)
        await anext(results)
        await asyncio.sleep(0)
        await results.aclose()

    run(act)
    assert caplog.records == []

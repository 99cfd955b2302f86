"""Questions in the queue of a service: they leave it, move up, and fail in time."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from scripted_services import ScriptedService, after, ask_all, question
from secondpass.asking.dispatch import ask
from secondpass.asking.gate import Gate
from secondpass.effects import Ask
from secondpass.limits import Limits
from secondpass.questions import Completion
from secondpass.ranking.ledger import Ledger
from secondpass.services.throttle import Throttle, throttle_of

SECONDS = 60


def limited(service, rate):
    """The throttle of a service that was asked too fast, at a rate."""
    throttle, now = throttle_of(service), time.monotonic()
    throttle.rejected(now, now)
    throttle._sent = throttle._end = throttle._sent._replace(at=now, rate=rate)
    return throttle


def asking(service, ledger=None):
    ledger = ledger or Ledger(Limits())
    return asyncio.create_task(ask(Ask(service, [question()]), ledger, Gate(8)))


async def waiting(throttle, count):
    async with asyncio.timeout(SECONDS):
        while len(throttle._queue) < count:
            await asyncio.sleep(0.001)


def test_a_cancelled_question_gives_its_place_to_the_next():
    service = ScriptedService("yes")
    throttle = limited(service, 0.2)

    async def act():
        first = asking(service)
        await waiting(throttle, 1)
        second = asking(service)
        await waiting(throttle, 2)
        places = [ticket.place.at for ticket in throttle._queue]
        first.cancel()
        await asyncio.wait([first])
        (moved,) = throttle._queue
        assert moved.place.at <= places[0] + 0.1 < places[1]
        second.cancel()
        await asyncio.wait([second])

    asyncio.run(act())
    assert throttle._queue == []
    assert service.prompts == []


def test_the_next_question_is_woken_when_one_is_cancelled():
    """Its place was in an hour."""
    service = ScriptedService("yes")
    throttle = limited(service, 1.0)

    async def act():
        first = asking(service)
        await waiting(throttle, 1)
        throttle._end = throttle._end._replace(at=time.monotonic() + 3600)
        second = asking(service)
        await waiting(throttle, 2)
        first.cancel()
        async with asyncio.timeout(SECONDS):
            await second

    asyncio.run(act())
    assert len(service.prompts) == 1


@pytest.mark.parametrize("cause", ["budget", "cancelled"])
def test_a_question_that_is_not_sent_after_its_wait_leaves_the_queue(cause, monkeypatch):
    service = ScriptedService("yes")
    throttle, pause = limited(service, 20.0), Throttle.pause
    ledger = Ledger(Limits(calls=1), questions=cause == "budget")

    def at_the_last_moment(*arguments):
        seconds = pause(*arguments)
        if cause == "cancelled":
            asyncio.get_running_loop().call_later(seconds, asyncio.current_task().cancel)
        return seconds

    async def act():
        await asyncio.wait([asking(service, ledger)], timeout=SECONDS)

    monkeypatch.setattr(Throttle, "pause", at_the_last_moment)
    sent = throttle._sent
    asyncio.run(act())
    assert service.prompts == []
    assert (throttle._queue, throttle._sent) == ([], sent)


def test_a_question_fails_as_soon_as_it_cannot_be_sent_in_time():
    service = ScriptedService("yes")
    throttle = limited(service, 0.2)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_all, service, question(), deadline=SECONDS / 3)
        deadline = time.monotonic() + SECONDS
        while not throttle._queue and time.monotonic() < deadline:
            time.sleep(0.001)
        began = time.monotonic()
        throttle.rejected(began, began, retry_after=29.0)
        (answer,), _ = asked.result(SECONDS)
    assert time.monotonic() - began < SECONDS / 4
    assert answer.error.code == "deadline"
    assert service.prompts == []


def test_a_question_that_is_asked_again_keeps_its_number(monkeypatch):
    numbers = []
    use = Throttle.use

    def recorded(throttle, ticket):
        numbers.append(ticket.number)
        use(throttle, ticket)

    monkeypatch.setattr(Throttle, "use", recorded)
    (answer,), _ = ask_all(ScriptedService(after(0.01), "yes"), question())
    assert answer.value == "yes"
    assert len(numbers) == 2
    assert len(set(numbers)) == 1


def test_event_loops_of_several_threads_share_a_queue():
    class Service:
        name = "shared"
        lock = threading.Lock()
        running = 0

        async def complete(self, _prompt):
            with self.lock:
                self.running += 1
            return Completion("yes")

    service = Service()
    throttle = limited(service, 100.0)
    with ThreadPoolExecutor(8) as pool:
        work = [pool.submit(ask_all, service, *[question()] * 4) for _ in range(16)]
        answers = [answer.value for future in work for answer in future.result(SECONDS)[0]]
    assert answers == ["yes"] * 64
    assert service.running == 64
    assert throttle._queue == []

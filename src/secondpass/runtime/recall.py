"""Asks only what the response cache does not know."""

from __future__ import annotations

from typing import Any, TypeVar

from secondpass.effects import Answer, Ask
from secondpass.runtime import dispatch
from secondpass.runtime.gate import Gate
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.response_cache import is_doubtful

T = TypeVar("T")


async def ask(effect: Ask[Any, T], ledger: Ledger, gate: Gate) -> list[Answer[T]]:
    """:func:`secondpass.runtime.dispatch.ask`, without the questions whose answers are stored.

    Those take no slot, no call, no round and nothing of a budget; nor does one that equals another
    of the same round, and gets the answer of that. New answers are stored as they
    come, so that an interruption loses none.

    Raises:
        NestedCallError: the service called the ranking that waits for it.
    """
    cache, service = ledger.cache, effect.service
    if cache is None:
        return await dispatch.ask(effect, ledger, gate)
    values = await cache.find(service, effect.questions, ledger)
    others = [question for index, question in enumerate(effect.questions) if index not in values]
    answers: list[Answer[T]] = []
    if others:
        firsts = cache.first_of_equal(service, others, ledger)
        once = [question for index, question in enumerate(others) if firsts[index] == index]
        asked = iter(await dispatch.ask(Ask(service, once), ledger, gate))
        for index, first in enumerate(firsts):
            answers.append(next(asked) if first == index else answers[first])
            ledger.cached += first != index and answers[first].error is None
        if any(map(is_doubtful, answers)):  # the others are on the same scale, perhaps by chance
            cache.forget(service, others)
        await cache.written(ledger)
    rest = iter(answers)
    return [
        Answer(values[index]) if index in values else next(rest)
        for index in range(len(effect.questions))
    ]

"""Asks only the questions whose answers are not in the response cache."""

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

    Stored answers take no slot, no call, no round and no budget. Of equal questions in a round only
    the first is asked. New answers are stored as they arrive, so that an interruption loses none.

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
        distinct = [question for index, question in enumerate(others) if firsts[index] == index]
        new_answers = iter(await dispatch.ask(Ask(service, distinct), ledger, gate))
        for index, first in enumerate(firsts):
            answers.append(next(new_answers) if first == index else answers[first])
            ledger.cached += first != index and answers[first].error is None
        if any(map(is_doubtful, answers)):  # the others may be in range only by chance
            cache.forget(service, others)
        await cache.written(ledger)
    rest = iter(answers)
    return [
        Answer(values[index]) if index in values else next(rest)
        for index in range(len(effect.questions))
    ]

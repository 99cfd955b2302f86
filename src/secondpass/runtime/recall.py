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

    Those take no slot, no call, no round and nothing of a budget. New answers are stored as they
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
        answers = await dispatch.ask(Ask(service, others), ledger, gate)
        if any(map(is_doubtful, answers)):  # the others are on the same scale, perhaps by chance
            cache.forget(service, others)
        await cache.written(ledger)
    asked = iter(answers)
    return [
        Answer(values[index]) if index in values else next(asked)
        for index in range(len(effect.questions))
    ]

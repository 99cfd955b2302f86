"""Interim judgements of methods that other methods run, on other tasks than their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from secondpass.effects import Interim, Judgement, Plan, Task
from secondpass.runtime.judgements import checked

T = TypeVar("T")


def relayed(plan: Plan[T], relay: Callable[[Interim], Plan[None]]) -> Plan[T]:
    """Run a plan, with each interim judgement replaced by the effects of ``relay``."""
    resume, value = plan.send, None
    try:
        while True:
            try:
                effect = resume(value)
            except StopIteration as stop:
                result: T = stop.value
                return result
            resume, value = plan.send, None
            if isinstance(effect, Interim):
                yield from relay(effect)
                continue
            try:
                value = yield effect
            except Exception as error:  # from the scheduler, if the value is no effect
                resume, value = plan.throw, error
    finally:
        plan.close()


def converted(
    plan: Plan[T], part: Task, whole: Task, convert: Callable[[Judgement], Judgement]
) -> Plan[T]:
    """Run the plan of a method that judges ``part``, in a method that judges ``whole``.

    Args:
        plan: of the inner method.
        part: the task of the inner method.
        whole: the task of the outer method.
        convert: converts a judgement of ``part`` into one of ``whole``.
    """

    def relay(interim: Interim) -> Plan[None]:
        if interim.task is part:
            yield Interim(whole, lambda: convert(checked(interim.judgement(), part)))

    return relayed(plan, relay)

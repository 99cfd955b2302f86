"""Interim judgements of methods that other methods run, on other tasks than their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from secondpass.effects import Judgement, Plan, Task
from secondpass.runtime.judgements import checked


def converted(part: Task, whole: Task, convert: Callable[[Judgement], Judgement]) -> Task:
    """A task of a method that runs in a method that judges ``whole``.

    Its interim judgements become those of the whole task.

    Args:
        part: the task of the inner method.
        whole: the task of the outer method.
        convert: converts a judgement of ``part`` into one of ``whole``.
    """
    if whole.call.relay is None:
        return part

    def relay(task: Task, judgement: Callable[[], Judgement]) -> Plan[None]:
        if task is heard:
            yield from whole.call.interim(whole, lambda: convert(checked(judgement(), heard)))

    heard = replace(part, call=whole.call.heard_by(relay))
    return heard

"""Finds the strategy that fits what the limits leave, and for how many candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from secondpass.effects import LLM, Method, Task
from secondpass.limits import Left, Limits
from secondpass.runtime.dry_run import SimulatedLedger
from secondpass.strategies.base import Bounds, bounds_of
from secondpass.strategies.cost_plan import PlannedStage
from secondpass.strategies.estimates import exceeded_limits, most_waves, planned_stage, trials
from secondpass.strategies.parts import part_of


@dataclass(frozen=True, slots=True)
class Option:
    """A strategy that can be chosen.

    Attributes:
        kind: its registered name.
        settings: those that differ from the defaults.
        groups: names of its settings for the number of candidates per question; empty if one
            question shows all candidates.
        top_k: name of its setting for the number of top candidates whose order is exact; None if
            the whole order is.
    """

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    groups: Sequence[str] = ()
    top_k: str | None = None

    @property
    def name(self) -> str:
        """The kind and its settings."""
        settings = ", ".join(f"{key}: {value}" for key, value in self.settings.items())
        return f"{self.kind} ({settings})" if settings else self.kind


@dataclass(frozen=True, slots=True)
class Fitting:
    """Which options fit the first candidates of a task.

    Attributes:
        options: in descending order of expected quality; at least one.
        strategy: returns the strategy of an option.
        group: number of candidates that its questions show.
        llm: the language model that it asks.
        task: all candidates.
        left: what the limits leave.
        pace: expected seconds per call.
    """

    options: Sequence[Option]
    strategy: Callable[[Option], Method]
    group: int
    llm: LLM
    task: Task
    left: Left
    pace: float

    def first(self, count: int) -> tuple[Option | None, str]:
        """The first option that fits ``count`` candidates, and why those before it do not."""
        rejected: list[str] = []
        for option in self.options:
            exceeded = self._exceeded(option, self._part(count))
            if not exceeded:
                return option, "; ".join(rejected)
            rejected.append(f"{option.name}: {', '.join(exceeded)}")
        return None, "; ".join(rejected)

    def most(self, limit: int) -> tuple[Option, int]:
        """The most candidates, fewer than ``limit``, that an option fits; and the first such.

        If none fits any, the last option and two candidates.
        """
        # Needs grow with the number of candidates, so bisection finds the most that fit.
        fits, fails = 2, limit
        likely = [*reversed(self.options)]  # what fitted last, and what takes least, comes first
        while fails - fits > 1:
            middle = (fits + fails) // 2
            part = self._part(middle)
            option = next((item for item in likely if not self._exceeded(item, part)), None)
            if option is None:
                fails = middle
            else:
                fits = middle
                likely.remove(option)
                likely.insert(0, option)
        option, _ = self.first(fits) if fits > 2 else (None, "")
        return option or self.options[-1], fits

    def _part(self, count: int) -> Task:
        """The task about the first ``count`` candidates."""
        return self.task if count == len(self.task.texts) else part_of(self.task, range(count))

    def _exceeded(self, option: Option, task: Task) -> list[str]:
        """The names of the limits that an option exceeds; empty if it fits."""
        if option.top_k is not None and task.top_k is not None and task.top_k >= self.group:
            return ["top_k"]
        method, left = self.strategy(option), self.left
        bounds = bounds_of(method, len(task.texts)) or Bounds()
        time = self.pace * most_waves(bounds, left.concurrency)
        needs = PlannedStage(
            method.name, len(task.texts), bounds.calls, bounds.rounds, seconds=(time, time)
        )
        names = [item.limit for item in exceeded_limits(needs, left)]
        window = getattr(self.llm, "context_window", None)
        if names or (left.tokens is left.cost is window is None):
            return names
        needs = estimate(method, task, left.concurrency)
        if needs.problem or (needs.shortened and not option.groups):
            return ["context_window"]
        return [item.limit for item in exceeded_limits(needs, left)]


def estimate(method: Method, task: Task, concurrency: int) -> PlannedStage:
    """What a strategy would take, by a dry run without limits."""
    (trial,) = trials(method, task, SimulatedLedger(Limits(concurrency=concurrency)))
    return planned_stage(trial, concurrency, None)

"""Auto: the strategy of the best expected quality that the limits and the model allow.

Strategies are tried in descending order of nDCG@10 with the same simulated, noisy judge on TREC DL
2019: the table of ``docs/language-models.md``, which ``benchmarks/strategies.py`` prints (blocks
with 3 copies .844, blocks .837, listwise .835, graded .806, one
listwise question .800). The first is used whose upper bounds of calls, tokens, cost and time are
within what the limits leave. Shuffles multiply the cost, so they are never
chosen. To add a strategy, add it to :data:`OPTIONS`; it needs a method ``bounds``.

Calls, rounds and documents read are those of the chosen strategy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.effects import Chose, Judgement, LimitsLeft, Method, Plan, Task
from secondpass.errors import ConfigurationError, MethodError
from secondpass.limits import Left
from secondpass.llms import LLM_SETTING
from secondpass.prompts.counting import counted
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.template import Prompting
from secondpass.settings import configurable, nested, registry
from secondpass.strategies.base import Bounds, LLMStrategy, bounds_of
from secondpass.strategies.choice import Choice
from secondpass.strategies.estimates import most_readable
from secondpass.strategies.fitting import Fitting, Option, estimate
from secondpass.strategies.parts import part_of
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Gt

_GROUPS = (20, 10, 5)
"""Candidates per question; fewer if the passages do not fit the model's context window."""
_MARGIN = 1.2
"""Factor on the expected seconds per call, since some answers take longer than the mean."""


OPTIONS: tuple[Option, ...] = (
    Option("blocks", {"copies": 3}, groups=("block", "final")),
    Option("blocks", groups=("block", "final")),
    Option("listwise", groups=("window",)),
    Option("graded", groups=("batch_size",)),
    Option("listwise", {"window": None}),
)
"""The strategies, in descending order of expected quality."""


@configurable
class Auto(LLMStrategy):
    """Chooses a strategy for each list by what the limits leave.

    It chooses the strategy with the best expected quality whose upper bounds of calls, tokens, cost
    and time fit; in order of quality: ``blocks`` with three copies, ``blocks``, ``listwise``,
    ``graded``, one ``listwise`` question. Without ``limits`` that is
    the first. ``choices`` of the report says what was chosen, and why. If no strategy fits for all
    candidates, the last ones are left out, with the issue ``limits_too_low``.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function. If it
            states its ``context_window``, fewer candidates are shown per question where passages
            would be cut.
        seconds_per_call: assumed time of an answer, for the deadline, until it has been measured.
        labels: how candidates are named: ``opaque`` (short, and unknown to the authors of
            passages), their ``id``, or numbers from 0 or 1.
        prompt: the words of the prompts. The default instruction is that of each strategy.

    The score kind is ``rank``. A single candidate is left as it is. Strategies that the model
    cannot answer are not considered.
    """

    score_kind: ScoreKind = "rank"
    scale = None
    windows = "task"

    def __init__(
        self,
        llm: Annotated[Any, LLM_SETTING],
        *,
        seconds_per_call: Annotated[float, Gt(0)] = 3.0,
        labels: LabelKind = "opaque",
        prompt: Annotated[Prompting | None, nested(Prompting, optional=True)] = None,
    ) -> None:
        self.llm = llm
        self.seconds_per_call = seconds_per_call
        self.labels = labels
        self.prompt = prompt or Prompting()
        self._measured = 0.0  # seconds per call; 0 before the first
        self._strategies: dict[tuple[str, int, int | None], Method] = {}
        self._options = [option for option in OPTIONS if self._can_ask(option)]

    @property
    def name(self) -> str:
        """The method's name in reports."""
        return f"auto by {self.llm.name}"

    def judge(self, task: Task) -> Plan[Judgement]:
        """The effects of the chosen strategy.

        Raises:
            MethodError: it judged nothing.
        """
        if len(task.texts) == 1:
            return Judgement([None], beyond=frozenset({0}))
        before: Left = yield LimitsLeft()
        choice = self.choose(task, before)
        yield Chose(choice.method.name, choice.reason)
        try:
            judgement = yield from choice.judge(task)
        except MethodError:
            # A call that failed at once has no meaningful time; one that timed out has.
            self._measured = max(self._measured, (yield from self._measured_since(before)))
            raise
        self._measured = yield from self._measured_since(before)
        return judgement

    def bounds(self, count: int) -> Bounds:
        """The lowest and the highest bounds of all strategies that may be chosen."""
        if count < 2:
            return Bounds()
        possible = [
            bounds
            for option in self._options
            for group in _GROUPS
            for top_k in (None, group - 1)
            if (bounds := bounds_of(self._strategy(option, group, top_k), count)) is not None
        ]
        return Bounds(
            (min(item.calls[0] for item in possible), max(item.calls[1] for item in possible)),
            (min(item.rounds[0] for item in possible), max(item.rounds[1] for item in possible)),
        )

    def parts(self, task: Task, left: Left) -> list[tuple[Method, Task]]:
        """The strategy that would be chosen, with the task; none for a single candidate."""
        return [(self.choose(task, left), task)] if len(task.texts) > 1 else []

    def choose(self, task: Task, left: Left) -> Choice:
        """The first strategy that fits all candidates, or else the most candidates.

        Args:
            task: two candidates or more; with fewer, the choice asks nothing.
            left: what the limits leave.
        """
        task = counted(task)
        pace = _MARGIN * (left.seconds_per_call or self._measured or self.seconds_per_call)
        if left.seconds is not None:  # one call is tried in any case
            left = replace(left, seconds=max(left.seconds, pace))
        group = self._group(task)
        count = len(task.texts)

        def strategy(option: Option) -> Method:
            return self._strategy(option, group, task.top_k)

        fitting = Fitting(self._options, strategy, group, self.llm, task, left, pace)
        # Dry runs count all prompts; candidates that cannot be shown once are left out before.
        readable = most_readable(task.texts, self.llm, self.prompt, left)
        option, rejected = None, "tokens to show each once"
        if readable == count:
            option, rejected = fitting.first(count)
        if option is not None:
            reason = "has the best expected quality"
            if rejected:
                reason += f" of what fits; what does not: {rejected}"
            return self._choice(option, group, task, count, reason)
        option, most = fitting.most(min(count, readable + 1))
        reason = f"judges most candidates, since nothing fits all: {rejected}"
        return self._choice(option, group, task, min(most, count), reason)

    def _choice(self, option: Option, group: int, task: Task, count: int, reason: str) -> Choice:
        """The choice of a strategy for the first ``count`` candidates of a task."""
        fewer = option.groups and group < _GROUPS[0]
        shown = f", {group} candidates per question," if fewer else ""
        method = self._strategy(option, group, task.top_k)
        return Choice(method, count, f"{option.name}{shown} {reason}")

    def _group(self, task: Task) -> int:
        """How many candidates a question shows: as many as the context window has room for."""
        if getattr(self.llm, "context_window", None) is None:
            return _GROUPS[0]
        longest = sorted(range(len(task.texts)), key=lambda index: -len(task.texts[index]))
        for group in _GROUPS[:-1]:
            method = self._strategy(self._options[0], group, None)
            needs = estimate(method, part_of(task, longest[:group]), Left().concurrency)
            if not (needs.shortened or needs.problem):
                return group
        return _GROUPS[-1]

    def _strategy(self, option: Option, group: int, top_k: int | None) -> Method:
        """A strategy with its settings; created once.

        Raises:
            ConfigurationError: the model cannot answer its questions.
        """
        key = option.name, group, top_k if option.top_k else None
        if key not in self._strategies:
            settings = {**option.settings, **dict.fromkeys(option.groups, group)}
            if option.top_k is not None and top_k is not None:
                settings[option.top_k] = top_k
            kind: Any = registry.kind("methods", option.kind)
            self._strategies[key] = kind(
                self.llm, **settings, labels=self.labels, prompt=self.prompt
            )
        return self._strategies[key]

    def _can_ask(self, option: Option) -> bool:
        """Whether the model can answer the questions of a strategy."""
        try:
            self._strategy(option, _GROUPS[0], None)
        except ConfigurationError:
            return False
        return True

    def _measured_since(self, before: Left) -> Plan[float]:
        """The mean seconds per call since ``before``; the previous value if there was no call."""
        after: Left = yield LimitsLeft()
        waves = after.question_waves - before.question_waves
        if waves == 0:
            return self._measured
        return (after.question_seconds - before.question_seconds) / waves

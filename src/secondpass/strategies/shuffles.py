"""Shuffles: candidates are judged in several orders, side by side, and their scores averaged.

Tang, Zhang, Ma, Lin and Ture, "Found in the middle: permutation self-consistency improves listwise
ranking in large language models", NAACL 2024, arXiv 2310.07712. A model prefers documents for their
place in the prompt; over several orders, that evens out.

Grades are averaged. The paper joins orders by the one with the least Kendall distance to all
(Kemeny), which is hard to find; here, reciprocal ranks are averaged (Cormack, Clarke and Büttcher,
SIGIR 2009), which was as good with the simulated judge of ``benchmarks/strategies.py``. Mean ranks
(Borda) were worse with sliding windows, whose lower ranks are unreliable.

For R shuffles: R times the calls and the documents read of one, in as many rounds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean, median_low
from typing import Any, TypeVar

from secondpass.effects import Ask, Interim, Judgement, Plan, RoundsLeft, Task
from secondpass.errors import MethodError
from secondpass.strategies.base import IssueCollector, affordable

T = TypeVar("T")

_FEW = 10
"""Up to this many candidates, there may be fewer orders than shuffles."""
_K = 60
"""The constant of reciprocal ranks, as in the paper. The larger it is, the less the first ranks
count."""


@dataclass(frozen=True, slots=True)
class Shuffles:
    """Runs a method on several orders of its candidates, and averages the results.

    Attributes:
        runs: number of orders; the first is the input order.
        scale: lowest and highest score, if scores are grades; None if they are ranks.
    """

    runs: int
    scale: tuple[float, float] | None = None

    def judge(
        self,
        name: str,
        judge: Callable[[Task], Plan[Judgement]],
        task: Task,
        rounds: Sequence[int],
    ) -> Plan[Judgement]:
        """Judge the candidates of a task in every order.

        Args:
            name: of the method.
            judge: judges a task once.
            task: with one candidate or more; a single candidate is judged once.
            rounds: number of questions of each round of one run.

        Raises:
            MethodError: no run scored anything, or one has scores on another scale.
        """
        if self.runs == 1 or len(task.texts) == 1:
            return (yield from judge(task))
        issues = IssueCollector(name)
        number = yield from affordable(self.runs, sum(rounds))
        orders = self.orders(len(task.texts))[:number]
        plans = [judge(_in_order(task, order)) for order in orders]
        results = sorted((yield from side_by_side(plans, len(rounds))).items())
        if len(results) < self.runs:
            message = f"the limits allow {len(results)} of {self.runs} shuffles"
            issues.add("fewer_runs", message)
        errors = [result for _, result in results if isinstance(result, MethodError)]
        for error in errors:
            # Scores of other runs may be on the same wrong scale, and in range only by chance.
            if error.code == "score_out_of_range" or len(errors) == len(results):
                raise error
            issues.add(error.code, f"one of the shuffles scored nothing: {error}")
        runs = [
            _Run(orders[number], result)
            for number, result in results
            if not isinstance(result, MethodError)
        ]
        return self._averaged(runs, issues)

    def orders(self, count: int) -> list[list[int]]:
        """``runs`` orders of ``count`` indices; none is repeated before all were used."""
        orders = [list(range(count)) for _ in range(self.runs)]
        possible = math.factorial(count) if count <= _FEW else math.inf
        used: set[tuple[int, ...]] = set()
        for number, order in enumerate(orders):
            if len(used) == possible:
                used = set()
            generator = random.Random(f"0 {number}")
            if number > 0:
                generator.shuffle(order)
            while tuple(order) in used:
                generator.shuffle(order)
            used.add(tuple(order))
        return orders

    def _averaged(self, runs: Sequence[_Run], issues: IssueCollector) -> Judgement:
        """The mean of the scores that the runs gave each candidate, and their spread."""
        count = len(runs[0].order)
        scores: list[list[float]] = [[] for _ in range(count)]  # of each candidate, in the runs
        for run in runs:
            for index, score in zip(run.order, run.judgement.scores, strict=True):
                if score is not None:
                    scores[index].append(score)
            for issue in run.judgement.issues:
                issues.add(issue.code, issue.message, run.indices(issue.positions))
        if disagreed := [index for index in range(count) if self._disagree(scores[index])]:
            message = "one of the shuffles puts these far higher than most do"
            issues.add("shuffles_disagree", message, disagreed)
        unjudged = [frozenset(run.indices(run.judgement.unjudged)) for run in runs]
        return Judgement(
            _joint_ranks(scores) if self.scale is None else [_mean(values) for values in scores],
            frozenset.intersection(*unjudged),
            issues.issues(),
            degraded=any(run.judgement.degraded for run in runs),
            spreads=[max(values) - min(values) if len(values) > 1 else None for values in scores],
        )

    def _disagree(self, scores: Sequence[float]) -> bool:
        """Whether the highest score is far above the median.

        For grades, by more than half of the scale. Ranks of irrelevant candidates differ as much by
        chance, so the best rank has to be in the first twentieth, and the median in the lower half.
        """
        if len(scores) < 2:
            return False
        highest, usual = max(scores), median_low(scores)
        if self.scale is None:
            return highest > 0.95 and usual < 0.5
        return highest - usual > (self.scale[1] - self.scale[0]) / 2


@dataclass(frozen=True, slots=True)
class _Run:
    """The judgement of a run, and the order of the candidates in it."""

    order: list[int]
    judgement: Judgement

    def indices(self, positions: Iterable[int]) -> list[int]:
        """The indices of the task at these positions of the run."""
        return [self.order[position] for position in positions]


def side_by_side(plans: Sequence[Plan[T]], rounds: int) -> Plan[dict[int, T | MethodError]]:
    """Run plans that ask the same service, so that their questions share rounds.

    If a plan asks how many rounds are left, and the limits do not allow the rounds of all plans,
    the last plans are abandoned: one complete plan is worth more than several incomplete ones.

    Args:
        plans: at least one; their effects are Ask, RoundsLeft and Interim.
        rounds: how many each takes at most.

    Returns:
        What each plan returned, or the error that it raised, by its index; abandoned ones are
        absent.
    """
    results: dict[int, T | MethodError] = {}
    effects: dict[int, Any] = {}

    def advance(number: int, value: Any) -> None:
        try:
            effect = plans[number].send(value)
            while isinstance(effect, Interim):  # it would be about one order only
                effect = next(plans[number])
            effects[number] = effect
        except StopIteration as stop:
            results[number] = stop.value
        except MethodError as error:
            results[number] = error

    for number in range(len(plans)):
        advance(number, None)
    while effects:
        waiting = {number: effects.pop(number) for number in sorted(effects)}
        limited = [number for number in waiting if isinstance(waiting[number], RoundsLeft)]
        if limited:
            repairs = waiting[limited[0]].repairs
            left = yield waiting[limited[0]] if repairs else RoundsLeft(len(limited))
            while not repairs and left is not None and left < rounds and len(limited) > 1:
                del waiting[limited.pop()]
                left = yield RoundsLeft(len(limited))
            for number in limited:
                del waiting[number]
            effects |= waiting
            for number in limited:
                advance(number, left)
            continue
        questions = [question for ask in waiting.values() for question in ask.questions]
        answers = iter((yield Ask(next(iter(waiting.values())).service, questions)))
        for number, ask in waiting.items():
            advance(number, list(islice(answers, len(ask.questions))))
        rounds -= 1
    return results


def _in_order(task: Task, order: Sequence[int]) -> Task:
    return replace(
        task,
        texts=[task.texts[index] for index in order],
        candidates=[task.candidates[index] for index in order],
    )


def _mean(scores: Sequence[float]) -> float | None:
    if not scores:
        return None
    # A rounding error must neither separate equal scores nor leave their range.
    return min(max(fmean(scores), min(scores)), max(scores))


def _joint_ranks(scores: Sequence[Sequence[float]]) -> list[float | None]:
    """Scores of the kind ``rank``, by mean reciprocal ranks; equal means keep the input order.

    Args:
        scores: for each candidate, its scores of that kind in the runs.
    """
    count = len(scores)
    means = {
        index: fmean(1 / (_K + 1 + round(count * (1 - score))) for score in values)
        for index, values in enumerate(scores)
        if values
    }
    joint: list[float | None] = [None] * count
    for rank, index in enumerate(sorted(means, key=lambda index: (-means[index], index))):
        joint[index] = (count - rank) / count
    return joint

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, TypeVar

from secondpass.effects import Ask, Call, Judgement, Left, Plan, Task
from secondpass.errors import MethodError
from secondpass.questions import Answer
from secondpass.ranking.issues import IssueCollector

T = TypeVar("T")

_FEW = 10  # up to this many candidates, there may be fewer orders than shuffles
_K = 60
"""The constant of reciprocal ranks, as in the paper. The larger it is, the less the first ranks
count."""


@dataclass(frozen=True, slots=True)
class Shuffles:
    """Runs a method on several orders of its candidates, and averages the results."""

    runs: int  # number of orders; the first is the input order
    scale: tuple[float, float] | None = None  # of grades; None if scores are ranks

    def judge(
        self, name: str, judge: Callable[[Task], Plan[Judgement]], task: Task, rounds: Sequence[int]
    ) -> Plan[Judgement]:
        """Judge the candidates of a task in every order by ``judge``; a single one is judged once.

        ``name`` is that of the method, ``rounds`` the questions of each round of one run.
        """
        if self.runs == 1 or len(task.texts) == 1:
            return judge(task)
        return self._judge_in_orders(name, judge, task, rounds)

    def _judge_in_orders(
        self, name: str, judge: Callable[[Task], Plan[Judgement]], task: Task, rounds: Sequence[int]
    ) -> Plan[Judgement]:
        issues = IssueCollector(name)
        affordable = self.runs
        while affordable > 1 and task.call.rounds_left(affordable * sum(rounds)) == 0:
            affordable -= 1
        orders = self.orders(len(task.texts))[:affordable]
        runs_together = SideBySide(task.call, len(rounds))
        plans = [judge(_in_order(task, order, runs_together)) for order in orders]
        results = sorted((yield from runs_together.results(plans)).items())
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
            (orders[number], result)
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

    def _averaged(
        self, runs: Sequence[tuple[list[int], Judgement]], issues: IssueCollector
    ) -> Judgement:
        """The mean of the scores that the runs gave each candidate."""
        count = len(runs[0][0])
        scores: list[list[float]] = [[] for _ in range(count)]  # of each candidate, in the runs
        for order, judgement in runs:
            for index, score in zip(order, judgement.scores, strict=True):
                if score is not None:
                    scores[index].append(score)
            for issue in judgement.issues:
                indices = [order[position] for position in issue.positions]
                issues.add(issue.code, issue.message, indices)
        unjudged = [{order[position] for position in result.unjudged} for order, result in runs]
        return Judgement(
            _joint_ranks(scores) if self.scale is None else [_mean(values) for values in scores],
            frozenset(set.intersection(*unjudged)),
            issues.issues(),
            degraded_by={reason for _, judgement in runs for reason in judgement.degraded_by},
        )


class SideBySide(Call):
    """Runs that ask the same service, so that their questions share rounds; the handle of each.

    If a run asks how many rounds are left, and the limits do not allow the rounds of all runs, the
    last runs are abandoned, also those that have a question for this round: one complete run is
    worth more than several incomplete ones. Interim judgements are ignored: each would be about one
    order only. A run takes at most ``rounds``.
    """

    def __init__(self, call: Call, rounds: int) -> None:
        self._call = call
        self._rounds = rounds
        self._running: dict[int, None] = {}
        self._asked = False
        self._left: int | None = None
        """How many rounds are left for all that run, once one has asked in this round."""

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        """How many rounds of questions of all runs are left; the same for all in one round.

        The first that asks in a round drops the runs that the limits do not allow.
        """
        if repairs:
            return self._call.rounds_left(questions, repairs=True)
        if not self._asked:
            self._asked = True
            self._left = self._drop_unaffordable(questions)
        return self._left

    def _drop_unaffordable(self, questions: int) -> int | None:
        """Abandon the last runs until the limits allow all rounds of the others, or one is left.

        Returns:
            How many rounds of ``questions`` are left for each of the others; None without limits.
        """
        while True:
            left = self._call.rounds_left(questions * len(self._running))
            if left is None or left >= self._rounds or len(self._running) == 1:
                return left
            self._running.popitem()

    def limits_left(self) -> Left:
        return self._call.limits_left()

    def results(self, plans: Sequence[Plan[T]]) -> Plan[dict[int, T | MethodError]]:
        """What each plan, of one or more, returned or raised; abandoned ones are absent."""
        results: dict[int, T | MethodError] = {}
        running = self._running = dict.fromkeys(range(len(plans)))
        answers: dict[int, list[Answer[Any]] | None] = {**running}
        while True:
            asks: dict[int, Any] = {}
            self._asked = False
            for number, received in answers.items():
                if number not in running:  # abandoned in this round, when one before it asked
                    continue
                try:
                    asks[number] = plans[number].send(received)
                except StopIteration as stop:
                    results[number] = stop.value
                    running.pop(number, None)
                except MethodError as error:
                    results[number] = error
                    running.pop(number, None)
            # Without those of runs that were abandoned after they had asked.
            asks = {number: asks[number] for number in running}
            if not asks:
                return results
            questions = [question for ask in asks.values() for question in ask.questions]
            joint = iter((yield from Ask(next(iter(asks.values())).service, questions)))
            answers = {
                number: list(islice(joint, len(ask.questions))) for number, ask in asks.items()
            }
            self._rounds -= 1


def _in_order(task: Task, order: Sequence[int], call: Call) -> Task:
    return replace(
        task,
        call=call,
        texts=[task.texts[index] for index in order],
        candidates=[task.candidates[index] for index in order],
    )


def _mean(scores: Sequence[float]) -> float | None:
    if not scores:
        return None
    # A rounding error must neither separate equal scores nor leave their range.
    return min(max(fmean(scores), min(scores)), max(scores))


def _joint_ranks(scores: Sequence[Sequence[float]]) -> list[float | None]:
    """Scores of the kind ``rank``, by mean reciprocal ranks; equal means keep the input order."""
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

"""Partition: the model orders the first window; all others are compared with a pivot of it.

Parry, MacAvaney and Ganguly, "Top-down partitioning for efficient list-wise ranking" (TDPart),
ReNeuIR at SIGIR 2024, arXiv 2405.14589. The first window is ordered; its candidate at the cutoff is
the pivot. The other candidates are shown in windows with the pivot, side by side. Those that the
model puts before it join the best of the first window, and these are partitioned again, until none
is better than a pivot.

For n candidates, windows of w and cutoff k: 1 + ceil((n - w) / (w - 1)) calls in 2 rounds if
nothing beats the pivot, one more call and round if at most w - k + 1 candidates do. 100 candidates
with window 20 and cutoff 10 are 6 calls in 2 rounds to about 9 in 4.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.effects import Interim, Judgement, Plan, Task
from secondpass.errors import ConfigurationError
from secondpass.llms import LLM_SETTING
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.template import Prompting
from secondpass.settings import configurable, nested
from secondpass.strategies.base import Bounds, batch_bounds, split_batches, unanswered
from secondpass.strategies.orders import Groups, OrderReply, OrderStrategy

if TYPE_CHECKING:
    from annotated_types import Ge


@configurable
class Partition(OrderStrategy):
    """Has a language model order the first candidates, and compare all others with one of these.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function.
        window: candidates per question at most.
        cutoff: place in the first window of the candidate that the others are compared with; None
            is half of the window. The ranking is exact down to about this place.
        reply: ``permutation`` asks for an array of labels, best first; ``keyed`` and ``pairs`` for
            the rank of each; ``ranked`` for ``[2] > [1] > [3]``, as models trained for listwise
            reranking reply, best with ``labels: index1``.
        labels: how candidates are named: ``opaque`` (short, and unknown to the authors of
            passages), their ``id``, or numbers from 0 or 1.
        bare: ask for the array itself; no schema is sent then.
        prompt: the words of the prompts.

    The score kind is ``rank``. A single candidate is left as it is.

    If the first window is not answered, no candidate gets a score. If a later one is not, or its
    reply leaves out the candidate to compare with, its other candidates get none.
    """

    def __init__(
        self,
        llm: Annotated[Any, LLM_SETTING],
        *,
        window: Annotated[int, Ge(2)] = 20,
        cutoff: Annotated[int, Ge(1)] | None = None,
        reply: OrderReply = "permutation",
        labels: LabelKind = "opaque",
        bare: bool = False,
        prompt: Annotated[Prompting | None, nested(Prompting, optional=True)] = None,
    ) -> None:
        if cutoff is not None and cutoff >= window:
            raise ConfigurationError(f"cutoff: must be smaller than the window ({window})")
        super().__init__(llm, reply, labels, bare, prompt)
        self.window = window
        self.cutoff = cutoff
        self._cutoff = cutoff or window // 2

    @property
    def name(self) -> str:
        """The method's name in reports."""
        return f"partition by {self.llm.name}"

    def _order(self, task: Task, groups: Groups) -> Plan[Judgement]:
        """Two rounds for each level: the first window, then all others with the pivot.

        Raises:
            MethodError: the first window was not answered.
        """
        count = len(task.texts)
        best = list(range(count))
        below: list[int] = []
        unjudged: set[int] = set()
        degraded = False
        while len(best) > 1:
            first, rest = best[: self.window], best[self.window :]
            (answer,) = yield from groups.ask(first)
            group = groups.read(answer, first)
            if group is None:
                if not below and answer.error is not None:
                    raise unanswered(answer.error)
                # All of these are better than a pivot; their current order stands.
                degraded = True
                break
            # Candidates that a later reply leaves out keep their place of the rounds before.
            known = group.missing if below else []
            if not rest:
                best = group.ordered + known
                break
            place = min(self._cutoff, len(group.ordered)) - 1
            better, pivot = group.ordered[:place], group.ordered[place]
            worse = group.ordered[place + 1 :] + known
            so_far = group.ordered + known + (rest + below if below else [])
            waiting = frozenset(unjudged) if below else frozenset(rest)
            yield Interim(
                task, partial(groups.judgement, count, so_far, waiting, degraded=degraded)
            )
            parts = [
                [pivot, *(rest[index] for index in batch)]
                for batch in split_batches(len(rest), self.window - 1)
            ]
            answers = yield from groups.ask(*parts)
            for part, answer in zip(parts, answers, strict=True):
                compared = groups.read(answer, part, kept=1)
                if compared is not None and pivot in compared.ordered:
                    pivot_place = compared.ordered.index(pivot)
                    better += compared.ordered[:pivot_place]
                    worse += compared.ordered[pivot_place + 1 :]
                    worse += compared.missing if below else []
                    continue
                if compared is not None:
                    message = "the reply leaves out the candidate that these are compared with"
                    groups.issues.add("windows_not_joined", message, part[1:])
                if below:
                    worse += part[1:]
                    degraded = True
                else:
                    unjudged.update(part[1:])
            best, below = better, [pivot, *worse, *below]
            if len(better) == place:
                break
            so_far, waiting = best + below, frozenset(unjudged)
            yield Interim(
                task, partial(groups.judgement, count, so_far, waiting, degraded=degraded)
            )
        return groups.judgement(count, best + below, frozenset(unjudged), degraded=degraded)

    def _bounds(self, count: int) -> Bounds:
        """At least one level; the most levels if all others always beat the pivot.

        Then each level sets aside the pivot and the candidates after it in the first window,
        ``window - cutoff + 1`` in all.
        """
        levels: list[Bounds] = []
        left = count
        while left > 1:
            rest = max(0, left - self.window)
            levels.append(Bounds.exactly(1, 1) + batch_bounds(rest, self.window - 1))
            left = left - (self.window - self._cutoff + 1) if rest else 0
        most = sum(levels, Bounds())
        return Bounds(
            (levels[0].calls[0], most.calls[1]),
            (levels[0].rounds[0], most.rounds[1]),
        )

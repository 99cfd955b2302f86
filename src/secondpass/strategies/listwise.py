"""Listwise: the model puts a window of candidates into order, and the window slides to the top.

Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, "Is ChatGPT good at search? Investigating large language
models as re-ranking agents" (RankGPT), EMNLP 2023. The window starts at the end of the list and
moves to its top by the stride, carrying the best candidates along.

For n candidates, windows of w and stride s: 1 + ceil((n - w) / s) calls, one after the other in as
many rounds; up to w documents are read in each. 100 candidates with window 20 and stride 10 are 9
calls in 9 rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from secondpass.effects import Judgement, Left, Plan, Task
from secondpass.errors import ConfigurationError
from secondpass.llms import LLM_SETTING, LLMLike
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.template import PROMPTING, Prompting
from secondpass.questions import LLM
from secondpass.ranking.issues import unanswered
from secondpass.settings import built, configurable
from secondpass.strategies.orders import Groups, OrderReply, OrderStrategy

if TYPE_CHECKING:
    from annotated_types import Ge


@configurable
class Listwise(OrderStrategy):
    """Has a language model order candidates, a window at a time.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function.
        window: candidates per question at most; None puts all into one.
        stride: how far the window moves; None is half of its size.
        shuffles: number of orders in which the candidates are judged, side by side; the first is
            the input order. Reciprocal ranks are averaged.
        reply: ``permutation`` asks for an array of labels, best first. ``keyed`` and ``pairs`` ask
            for the rank of each. ``ranked`` asks for ``[2] > [1] > [3]``, as models trained for
            listwise reranking reply; use ``labels: index1`` with it.
        labels: how candidates are named: ``opaque`` (short, and unknown to the authors of
            passages), their ``id``, or numbers from 0 or 1.
        bare: ask for the array itself; no schema is sent then.
        prompt: the words of the prompts.

    The score kind is ``rank``. A single candidate is left as it is.

    If time or budget does not allow all windows, some are skipped, so that the last one still
    reaches the top. A window counts only if every window between it and the top was answered;
    otherwise its candidates were not compared with the top, and get no score. If the topmost window
    is not answered, no candidate gets a score.
    """

    kind = "listwise"

    def __init__(
        self,
        llm: Annotated[LLMLike, LLM_SETTING],
        *,
        window: Annotated[int, Ge(2)] | None = 20,
        stride: Annotated[int, Ge(1)] | None = None,
        shuffles: Annotated[int, Ge(1)] = 1,
        reply: OrderReply = "permutation",
        labels: LabelKind = "opaque",
        bare: bool = False,
        prompt: Annotated[Prompting | Mapping[str, Any] | None, PROMPTING] = None,
    ) -> None:
        if window is not None and stride is not None and stride >= window:
            raise ConfigurationError(
                f"stride: must be smaller than the window ({window}), or no candidate moves on"
            )
        super().__init__(cast("LLM", llm), reply, labels, bare, built(prompt))
        self.window = window
        self.stride = stride
        self.shuffles = shuffles
        self._stride = stride or max(1, (window or 0) // 2)

    def _order(self, task: Task, groups: Groups) -> Plan[Judgement]:
        """Ask about one window at a time, from the end of the list to its top."""
        count = len(task.texts)
        size = min(self.window or count, count)
        order = list(range(count))
        answered: list[_Window] = []
        too_little_left = ""  # why windows were skipped; empty if none was
        start = count - size
        while True:
            rounds = task.call.rounds_left()
            # The lowest start from which windows still reach the top.
            lowest = start if rounds is None else max(0, rounds - 1) * self._stride
            if lowest < start:
                start = lowest
                too_little_left = _too_little_left(task.call.limits_left())
            indices = order[start : start + size]
            (answer,) = yield from groups.ask(indices)
            if start == 0 and answer.error is not None:
                raise unanswered(answer.error)
            group = groups.read(answer, indices)
            if group is not None:
                # What the answer leaves out follows in its old order.
                order[start : start + size] = group.ordered + group.missing
                answered.append(_Window(start, start + len(indices), group.ordered))
            if start == 0:
                break
            if group is not None:
                yield from task.call.interim(task, lambda: groups.judgement(count, order))
            start = max(0, start - self._stride)
        end, ordered = self._joined_to_top(answered, size)
        unjudged = frozenset(order[end:])
        if unjudged:
            message = "no unbroken run of answered windows joins these to the top"
            if too_little_left:
                message = f"windows were skipped, because {too_little_left}; {message}"
            groups.issues.add("windows_not_joined", message, sorted(unjudged))
        joined = [index for index in order[:end] if index in ordered]
        return groups.judgement(count, joined, unjudged)

    def _joined_to_top(self, answered: Sequence[_Window], size: int) -> tuple[int, set[int]]:
        """Where the unbroken run of answered windows from the top ends, and what they ordered.

        Windows that follow each other share ``size - stride`` candidates. If two answered ones
        share fewer, one between them was skipped or not answered. Then the lower one has compared
        its candidates only with each other, so they must not be placed above those between.

        Args:
            answered: the answered windows, from the last to the top.
            size: number of candidates in a window.
        """
        end = 0
        ordered: set[int] = set()
        for window in reversed(answered):
            shared = end - window.start  # with the window above
            if window.start > 0 and shared < size - self._stride:
                break
            end = window.stop
            ordered.update(window.ordered)
        return end, ordered

    def _rounds(self, count: int) -> list[int]:
        size = min(self.window or count, count)
        moves = -(-(count - size) // self._stride)  # rounded up
        return [1] * (1 + moves)


def _too_little_left(left: Left) -> str:
    """Why not all questions can be asked, by the limits that are set."""
    by_time = left.seconds is not None
    by_budget = (left.calls, left.tokens, left.cost) != (None, None, None)
    if by_time and not by_budget:
        return "too little time is left"
    if by_budget and not by_time:
        return "too little of the budget is left"
    return "too little time or budget is left"


class _Window(NamedTuple):
    """An answered window: its bounds, and the indices that the answer ordered."""

    start: int
    stop: int
    ordered: list[int]

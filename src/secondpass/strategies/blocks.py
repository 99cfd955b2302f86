"""Blocks: overlapping groups are ordered side by side, and their orders joined into one.

Dedov, "JointRank: rank large set with single pass", ICTIR 2025, arXiv 2506.22262. Every candidate
is in several blocks, which share candidates, so that the orders within the blocks compare all. The
best of the joined order are then ordered once more, in one listwise question.

For n candidates, blocks of b and r copies: r * ceil(n / b) calls in 1 round, and one call and round
for the best; every document is read r times. 100 candidates with blocks of 20 and 2 copies are 11
calls in 2 rounds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, cast

from secondpass.effects import Judgement, Left, Plan, Task
from secondpass.limits import waves
from secondpass.llms import LLM_SETTING, LLMLike
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.template import PROMPTING, Prompting
from secondpass.questions import LLM
from secondpass.ranking.issues import unanswered
from secondpass.ranking.ledger import ROUND_MARGIN
from secondpass.settings import built, configurable
from secondpass.strategies.orders import Groups, OrderReply, OrderStrategy
from secondpass.types import DegradedBy

if TYPE_CHECKING:
    from annotated_types import Ge


@configurable
class Blocks(OrderStrategy):
    """Has a language model order overlapping blocks of candidates, all at the same time.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function.
        block: candidates per question at most.
        copies: number of blocks that each candidate is in.
        final: number of top candidates that are ordered once more, in one question; 0 for none.
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

    A candidate gets a score if one of its blocks was answered, and that block is joined to the
    others by common candidates. If the last question is not answered, the joined order is used, and
    the report is ``degraded`` by ``stage``.

    If the limits do not allow all questions, the last candidates are left out, and the others are
    ordered once.
    """

    kind = "blocks"

    def __init__(
        self,
        llm: Annotated[LLMLike, LLM_SETTING],
        *,
        block: Annotated[int, Ge(2)] = 20,
        copies: Annotated[int, Ge(2)] = 2,
        final: Annotated[int, Ge(0)] = 20,
        shuffles: Annotated[int, Ge(1)] = 1,
        reply: OrderReply = "permutation",
        labels: LabelKind = "opaque",
        bare: bool = False,
        prompt: Annotated[Prompting | Mapping[str, Any] | None, PROMPTING] = None,
    ) -> None:
        super().__init__(cast("LLM", llm), reply, labels, bare, built(prompt))
        self.block = block
        self.copies = copies
        self.final = final
        self.shuffles = shuffles

    def judge(self, task: Task) -> Plan[Judgement]:
        """Order all candidates, for each shuffle, or once as many as the limits allow."""
        count = len(task.texts)
        groups = Groups(self, task)
        size, final = self._affordable(task, groups)
        if size == count and final:
            return super().judge(task)  # in which each shuffle has groups of its own
        if size < count:
            message = f"the limits allow questions about the first {size} candidates only"
            groups.issues.add("budget", message, range(size, count))
        if not final:
            message = "the limits do not allow the last question, about the best once more"
            groups.issues.add("budget", message)
        if self.shuffles > 1:
            message = f"the limits allow 1 of {self.shuffles} shuffles"
            groups.issues.add("fewer_runs", message)
        return self._order_first(size, task, groups, final=final)

    def _affordable(self, task: Task, groups: Groups) -> tuple[int, bool]:
        """How many of the first candidates the limits allow to be ordered, at least 2.

        And whether they allow the last question, too. It is given up only if without it they allow
        several blocks, and with it no more than one.
        """
        count = len(task.texts)
        left = task.call.limits_left()
        if count < 2 or not left.is_limited:
            return count, True

        def fits_with_last(size: int) -> bool:
            return self._fits(task, groups, size, left, final=True)

        def fits_without_last(size: int) -> bool:
            return self._fits(task, groups, size, left, final=False)

        size = largest_size(count, fits_with_last)
        if size == count or size > self.block:
            return size, True
        size_without_last = largest_size(count, fits_without_last)
        if size_without_last > self.block:
            return size_without_last, False
        return size, True

    def _fits(self, task: Task, groups: Groups, size: int, left: Left, *, final: bool) -> bool:
        """Whether the limits allow all questions about the first ``size`` candidates."""
        rounds = self._rounds(size, final=final)
        if left.calls is not None and sum(rounds) > left.calls:
            return False
        if left.seconds is not None and left.question_waves:
            seconds_per_wave = left.question_seconds / left.question_waves * ROUND_MARGIN
            if waves(rounds, left.concurrency) * seconds_per_wave > left.seconds:
                return False
        if left.tokens is None and left.cost is None:
            return True  # so that no question has to be built
        blocks = design(size, self.block, self.copies)
        if len(rounds) > 1:  # which are the best is not known, so the longest are counted
            longest = sorted(range(size), key=lambda index: -len(task.texts[index]))
            blocks.append(sorted(longest[: self.final]))
        tokens, cost = groups.expense(blocks)
        if left.tokens is not None and tokens > left.tokens:
            return False
        return left.cost is None or cost <= left.cost

    def _order(self, task: Task, groups: Groups) -> Plan[Judgement]:
        return self._order_first(len(task.texts), task, groups, final=True)

    def _order_first(
        self, size: int, task: Task, groups: Groups, *, final: bool
    ) -> Plan[Judgement]:
        """A round of questions about blocks of the first ``size``, and one about the best."""
        count = len(task.texts)
        blocks = design(size, self.block, self.copies)
        answers = yield from groups.ask(*blocks)
        read = [groups.read(answer, block) for block, answer in zip(blocks, answers, strict=True)]
        ordered = [group.ordered for group in read if group is not None]
        if not ordered:
            raise unanswered(answers[0].error)  # type: ignore[arg-type]
        joined = largest_component(ordered)
        separate = {index for order in ordered for index in order} - joined
        if separate:
            message = "no answered block joins these to the others"
            groups.issues.add("windows_not_joined", message, sorted(separate))
        answered: set[int] = set()
        for block, group in zip(blocks, read, strict=True):
            if group is not None:
                answered.update(block)
        unjudged = (frozenset(range(count)) - answered) | separate
        order = joint_order([order for order in ordered if joined.issuperset(order)])
        degraded_by: tuple[DegradedBy, ...] = ()
        if final and self.final > 1 and len(blocks) > 1:
            yield from task.call.interim(task, lambda: groups.judgement(count, order, unjudged))
            best = order[: self.final]
            (answer,) = yield from groups.ask(best)
            group = groups.read(answer, best)
            if group is None:
                degraded_by = ("stage",)
            else:
                order[: self.final] = group.ordered + group.missing
        return groups.judgement(count, order, unjudged, degraded_by=degraded_by)

    def _rounds(self, count: int, *, final: bool = True) -> list[int]:
        number = -(-count // self.block)  # of blocks, rounded up
        if number == 1:
            return [1]
        in_blocks = number * self.copies
        return [in_blocks, 1] if final and self.final > 1 else [in_blocks]


def largest_size(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number of candidates that fits, 2 to ``count``; 2 if not even 3 fit.

    What fits does so for each smaller number, too.
    """
    if fits(count):
        return count
    first_too_large = bisect_left(range(count), True, lo=3, key=lambda size: not fits(size))
    return first_too_large - 1


def design(count: int, size: int, copies: int) -> list[list[int]]:
    """Blocks of nearly equal size, ascending, such that each index is in ``copies`` of them.

    Indices are laid out in rows, one for each block of the first copy; the blocks of the others run
    along diagonals, so that they share as few indices as possible with each block of another copy.
    With one block for all there is one copy.
    """
    number = -(-count // size)  # of blocks of each copy, rounded up
    if number == 1:
        return [list(range(count))]
    blocks: list[list[int]] = []
    for copy in range(copies):
        blocks_of_copy: list[list[int]] = [[] for _ in range(number)]
        for index in range(count):
            column, row = divmod(index, number)
            blocks_of_copy[(row + copy * column) % number].append(index)
        blocks += blocks_of_copy
    return blocks


def largest_component(orders: Sequence[Sequence[int]]) -> set[int]:
    """The largest set of indices that common members join; of equals, that with the lowest."""
    components: list[set[int]] = []
    for order in orders:
        touching = [component for component in components if component.intersection(order)]
        components = [component for component in components if component not in touching]
        components.append(set(order).union(*touching))
    return max(components, key=lambda component: (len(component), -min(component)))


def joint_order(orders: Sequence[Sequence[int]]) -> list[int]:
    """All indices of several orders, best first, by the mean share of its block that each beats.

    Equal shares keep the original order. PageRank over the same comparisons gives a better order
    with an exact judge, but a worse one with a noisy judge; after the last question the two are
    equally good.
    """
    shares: dict[int, list[float]] = {}
    for order in orders:
        last = max(1, len(order) - 1)
        for place, index in enumerate(order):
            shares.setdefault(index, []).append(1 - place / last)
    return sorted(shares, key=lambda index: (-fmean(shares[index]), index))

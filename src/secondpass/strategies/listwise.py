"""Listwise: the model puts a window of candidates into order, and the window slides to the top.

Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, "Is ChatGPT good at search? Investigating large language
models as re-ranking agents" (RankGPT), EMNLP 2023. The window starts at the end of the list and
moves to its top by the stride, carrying the best candidates along.

For n candidates, windows of w and stride s: 1 + ceil((n - w) / s) calls, one after the other in as
many rounds; up to w documents are read in each. 100 candidates with window 20 and stride 10 are 9
calls in 9 rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import LLM, Answer, Ask, Judgement, Plan, RoundsLeft, Task
from secondpass.errors import ConfigurationError
from secondpass.llms import LLM_SETTING
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.base import ReplyFormat
from secondpass.prompts.replies.numbers import Keyed, Pairs, Ranks
from secondpass.prompts.replies.permutation import Permutation
from secondpass.prompts.replies.ranked import Ranked
from secondpass.prompts.replies.values import Order
from secondpass.prompts.template import Prompting
from secondpass.settings import configurable, nested
from secondpass.strategies.base import IssueCollector, LLMStrategy, unanswered
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge

_FORMATS: Mapping[str, Callable[[LabelKind, bool], ReplyFormat[Order]]] = {
    "keyed": partial(Keyed, Ranks()),
    "pairs": partial(Pairs, Ranks()),
    "permutation": Permutation,
    "ranked": Ranked,
}


@configurable
class Listwise(LLMStrategy):
    """Has a language model order candidates, a window at a time.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function.
        window: candidates per question at most; None puts all into one.
        stride: how far the window moves; None is half of its size.
        reply: ``permutation`` asks for an array of labels, best first; ``keyed`` and ``pairs`` for
            the rank of each; ``ranked`` for ``[2] > [1] > [3]``, as models trained for listwise
            reranking reply, best with ``labels: index1``.
        labels: how candidates are named: ``opaque`` (short, and unknown to the authors of
            passages), their ``id``, or numbers from 0 or 1.
        bare: ask for the array itself; no schema is sent then.
        prompt: the words of the prompts.

    The score kind is ``rank``. A single candidate is left as it is.

    Where time or budget does not allow all windows, the last candidates are left out, so that the
    windows that are asked reach the top. A window counts only if every window planned between it
    and the top was answered: the rest say nothing of how their candidates compare with the top. If
    the topmost window is not answered, no candidate gets a score.
    """

    role = "You order documents by how well they answer a search query."
    instruction = (
        "Order all {count} documents by how well they answer the query, the best first. Compare "
        "them with each other; leave none out."
    )
    score_kind: ScoreKind = "rank"
    scale = None

    def __init__(
        self,
        llm: Annotated[Any, LLM_SETTING],
        *,
        window: Annotated[int, Ge(2)] | None = 20,
        stride: Annotated[int, Ge(1)] | None = None,
        reply: Literal["keyed", "pairs", "permutation", "ranked"] = "permutation",
        labels: LabelKind = "opaque",
        bare: bool = False,
        prompt: Annotated[Prompting | None, nested(Prompting, optional=True)] = None,
    ) -> None:
        if window is not None and stride is not None and stride >= window:
            raise ConfigurationError(
                f"stride: must be smaller than the window ({window}), or no candidate moves on"
            )
        self.llm: LLM = llm
        self.window = window
        self.stride = stride
        self.reply = reply
        self.labels = labels
        self.bare = bare
        self.prompt = prompt or Prompting()
        self._stride = stride or max(1, (window or 0) // 2)
        self._format = _FORMATS[reply](labels, bare)

    @property
    def name(self) -> str:
        """The method's name in reports."""
        return f"listwise by {self.llm.name}"

    def judge(self, task: Task) -> Plan[Judgement]:
        """Ask effects of one question each, from the end of the list to its top.

        Raises:
            MethodError: the topmost window was not answered.
        """
        count = len(task.texts)
        if count == 1:
            return Judgement([None], beyond=frozenset({0}))
        questions = Questions(task, self.llm, self.prompting, self._format)
        size = min(self.window or count, count)
        state = _State(list(range(count)), IssueCollector(self.name), size - self._stride)
        start = count - size
        while True:
            rounds: int | None = yield RoundsLeft()
            if rounds is not None:
                # Skip the last candidates if the windows could not reach the top otherwise.
                start = min(start, max(0, rounds - 1) * self._stride)
            indices = state.order[start : start + size]
            answers: list[Answer[Order]] = yield Ask(self.llm, [questions.about(indices)])
            if start == 0 and answers[0].error is not None:
                raise unanswered(answers[0].error)
            state.apply(answers[0], start, indices)
            if start == 0:
                return state.judgement()
            start = max(0, start - self._stride)


@dataclass(frozen=True, slots=True)
class _Window:
    """An answered window: its bounds, and the indices that the answer ordered."""

    start: int
    stop: int
    ordered: frozenset[int]


@dataclass(slots=True)
class _State:
    """The order so far.

    Attributes:
        order: all indices of the task, best first.
        issues: those so far.
        overlap: number of places that successive windows share, at least.
        windows: the answered ones, from the end of the list to its top.
    """

    order: list[int]
    issues: IssueCollector
    overlap: int
    windows: list[_Window] = field(default_factory=list)

    def apply(self, answer: Answer[Order], start: int, indices: list[int]) -> None:
        """Order a window by its answer; what the answer leaves out follows in its old order."""
        self.issues.add_answer(answer, indices)
        result = answer.value
        if result is None:
            return
        first = [indices[place] for place in result.places]
        refused = [indices[place] for place in result.refused]
        ordered = set(first)
        missing = [index for index in indices if index not in ordered]
        left_out = sorted(set(missing) - set(refused))
        stop = start + len(indices)
        self.order[start:stop] = first + missing
        self.windows.append(_Window(start, stop, frozenset(ordered)))
        if refused:
            self.issues.add("rank_refused", "the model's ranks of these cannot be used", refused)
        if left_out:
            reason = (
                "the reply broke off before them" if result.cut else "the reply leaves them out"
            )
            self.issues.add("not_in_reply", reason, left_out)
        if result.doubled:
            message = "the reply has documents twice; the first place counts"
            self.issues.add("doubled_label", message)
        if result.unknown:
            self.issues.add("unknown_label", "the reply has documents that were not shown")

    def judgement(self) -> Judgement:
        """Scores of what the unbroken run of answered windows from the top has ordered.

        A window below an unanswered one has compared its candidates only with each other, so they
        must not stand before those of the unanswered one.
        """
        joined = 0
        ordered: set[int] = set()
        for window in reversed(self.windows):
            if window.start and joined - window.start < self.overlap:
                break
            joined = window.stop
            ordered |= window.ordered
        unjudged = frozenset(self.order[joined:])
        if unjudged:
            message = "no unbroken run of answered windows joins these to the top"
            self.issues.add("windows_not_joined", message, sorted(unjudged))
        count = len(self.order)
        scores: list[float | None] = [None] * count
        ranked = [index for index in self.order[:joined] if index in ordered]
        for rank, index in enumerate(ranked):
            scores[index] = (count - rank) / count
        return Judgement(scores, unjudged, self.issues.issues())

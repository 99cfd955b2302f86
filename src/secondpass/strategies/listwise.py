"""Listwise: a window of candidates is put into order; more candidates than a window: it slides.

Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, "Is ChatGPT good at search? Investigating large language
models as re-ranking agents" (RankGPT), EMNLP 2023. The window starts at the back and moves towards
the front by its stride, so that what belongs on top is carried there.

For n candidates, windows of w and stride s: 1 + ceil((n - w) / s) calls, one after the other in as
many rounds; up to w documents are read in each. 100 candidates with window 20 and stride 10 are 9
calls in 9 rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.effects import LLM, Answer, Ask, Completion, Judgement, Plan, RoundsLeft, Task
from secondpass.errors import ConfigurationError, ReplyError
from secondpass.llms import LLM_SETTING
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.labels import LabelKind
from secondpass.prompts.questions import Form, Questions, Reply
from secondpass.prompts.replies.chain import read_ranked
from secondpass.prompts.replies.scores import read_grades, read_order
from secondpass.prompts.replies.values import Order
from secondpass.prompts.template import Prompting
from secondpass.settings import configurable, nested
from secondpass.strategies.base import IssueCollector, LLMStrategy
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge


@configurable
class Listwise(LLMStrategy):
    """Has a language model order candidates, a window at a time.

    Args:
        llm: who orders: a mapping with a ``type``, an LLM object, or a function.
        window: candidates a question at most; None puts all into one.
        stride: how far the window moves; None is half of its size.
        reply: ``permutation`` asks for an array of labels, best first; ``keyed`` and ``pairs`` for
            the rank of each; ``ranked`` for ``[2] > [1] > [3]``, as models trained for listwise
            reranking reply, best with ``labels: index1``.
        labels: what candidates are called: ``opaque`` (short, and nobody who writes a passage can
            know them), their ``id``, or numbers from 0 or 1.
        bare: ask for the array itself; no schema is sent then.
        prompt: what the model is told and shown.

    The score kind is ``rank``. A single candidate is left as it is: there is nothing to order.

    Where time or budget does not allow all windows, the last candidates are left out, so that the
    windows that are asked reach the top. A window counts only if every window planned between it
    and the top was answered: the rest say nothing of how their candidates compare with the top. If
    the topmost window is not answered, nothing is judged.
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
        reply: Reply = "permutation",
        labels: LabelKind = "opaque",
        bare: bool = False,
        prompt: Annotated[Prompting | None, nested(Prompting, optional=True)] = None,
    ) -> None:
        if window is not None and stride is not None and stride >= window:
            raise ConfigurationError(
                f"stride: must be smaller than the window ({window}), or the best is not carried on"
            )
        if bare and reply == "keyed":
            raise ConfigurationError("bare: is for arrays; reply 'keyed' asks for an object")
        if bare and reply == "ranked":
            raise ConfigurationError("bare: is for arrays; reply 'ranked' asks for a line of text")
        self.llm: LLM = llm
        self.window = window
        self.stride = stride
        self._step = stride or max(1, (window or 0) // 2)
        self.reply: Reply = reply
        self.labels = labels
        self.bare = bare
        self.prompt = prompt or Prompting()

    @property
    def name(self) -> str:
        """For reports."""
        return f"listwise by {self.llm.name}"

    def judge(self, task: Task) -> Plan[Judgement]:
        """Ask effects of one question each, from the back to the front.

        Raises:
            MethodError: the topmost window was not answered.
        """
        count = len(task.texts)
        if count == 1:
            return Judgement([None], beyond=frozenset({0}))
        questions = Questions(
            task,
            self.llm,
            self.prompting,
            Form(self.reply, self.labels, self.bare, word="rank", whole=True),
            read=self._read,
        )
        window = min(self.window or count, count)
        slid = _Slid(list(range(count)), IssueCollector(self.name), window - self._step)
        start = count - window
        while True:
            rounds: int | None = yield RoundsLeft()
            if rounds is not None:
                # So that the windows before this one can be asked as well.
                start = min(start, max(0, rounds - 1) * self._step)
            shown = slid.order[start : start + window]
            answers: list[Answer[Order]] = yield Ask(self.llm, [questions.about(shown)])
            if start == 0 and answers[0].error is not None:
                raise answers[0].error
            slid.enter(answers[0], start, shown)
            if start == 0:
                return slid.judgement()
            start = max(0, start - self._step)

    def _read(self, completion: Completion, labels: Labels) -> Order:
        if self.reply == "permutation":
            return read_order(completion, labels)
        if self.reply == "ranked":
            return read_ranked(completion, labels)
        # Models count from 0 as well; the order is the same.
        ranks = read_grades(completion, labels, 0, len(labels), word="rank", whole=True)
        known = [at for at, rank in enumerate(ranks.values) if rank is not None]
        if len(known) > 1 and len({ranks.values[at] for at in known}) == 1:
            raise ReplyError("it gives all documents the same rank")
        places = sorted(known, key=lambda at: ranks.values[at] or 0)  # ties as they were shown
        return Order(tuple(places), 0, ranks.unknown, ranks.cut, ranks.refused)


@dataclass(frozen=True, slots=True)
class _Window:
    """An answered window: where it begins and ends, and the indices that the answer ordered."""

    start: int
    stop: int
    placed: frozenset[int]


@dataclass(slots=True)
class _Slid:
    """How far the window has come.

    Attributes:
        order: of all indices, as it stands.
        notes: what is to be reported.
        overlap: how many places two windows that follow each other share, at least.
        windows: those that were answered, from the back to the front.
    """

    order: list[int]
    notes: IssueCollector
    overlap: int
    windows: list[_Window] = field(default_factory=list)

    def enter(self, answer: Answer[Order], start: int, shown: list[int]) -> None:
        """Move the window as the answer says; what it leaves out follows as it was."""
        self.notes.add_answer(answer, shown)
        given = answer.value
        if given is None:
            return
        first = [shown[at] for at in given.places]
        refused = [shown[at] for at in given.refused]
        placed = set(first)
        missing = [index for index in shown if index not in placed]
        left_out = sorted(set(missing) - set(refused))
        self.order[start : start + len(shown)] = first + missing
        self.windows.append(_Window(start, start + len(shown), frozenset(placed)))
        if refused:
            self.notes.add("rank_refused", "the model's ranks of these cannot be used", refused)
        if left_out:
            why = "the reply broke off before them" if given.cut else "the reply leaves them out"
            self.notes.add("not_in_reply", why, left_out)
        if given.doubled:
            told = "the reply has documents twice; the first place counts"
            self.notes.add("doubled_label", told)
        if given.unknown:
            self.notes.add("unknown_label", "the reply has documents that were not shown")

    def judgement(self) -> Judgement:
        """Ranks of what the unbroken run of answered windows from the top has ordered.

        A window below an unanswered one has compared its candidates only with each other, so they
        must not stand before those of the unanswered one.
        """
        joined = 0
        placed: set[int] = set()
        for window in reversed(self.windows):
            if window.start and joined - window.start < self.overlap:
                break
            joined = window.stop
            placed |= window.placed
        unjudged = frozenset(self.order[joined:])
        if unjudged:
            message = "no unbroken run of answered windows joins these to the top"
            self.notes.add("windows_not_joined", message, sorted(unjudged))
        count = len(self.order)
        scores: list[float | None] = [None] * count
        ranked = [index for index in self.order[:joined] if index in placed]
        for rank, index in enumerate(ranked):
            scores[index] = (count - rank) / count
        return Judgement(scores, unjudged, self.notes.issues())

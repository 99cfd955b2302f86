"""Effects of a ranking pass, and the protocols of scorers and methods.

A pass is a generator. It yields effects and is sent their results; it opens no connection, starts
no thread and reads no clock. A driver (:mod:`secondpass.runtime.drivers`) carries the effects out.
So sync and async share all logic, passes nest by ``yield from``, and tests need no models.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from secondpass.questions import (
    LLM,
    Answer,
    Completion,
    Estimate,
    ListScores,
    Prompt,
    Question,
    RawScores,
    Scorer,
    Service,
    Span,
    Turn,
    Windows,
)
from secondpass.types import Candidate, EngineInfo, Issue, ScoreKind

__all__ = [
    "LLM",
    "Answer",
    "Ask",
    "Completion",
    "Effect",
    "Ended",
    "Estimate",
    "Interim",
    "Judgement",
    "KeepTime",
    "LimitsLeft",
    "ListScores",
    "Method",
    "Plan",
    "Prompt",
    "Question",
    "Raised",
    "Ran",
    "RawScores",
    "RoundsLeft",
    "Score",
    "Scorer",
    "Service",
    "Span",
    "Started",
    "Task",
    "Turn",
    "Windows",
]

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Score:
    """Effect: score ``texts`` for ``query``. Its result is a :class:`RawScores`.

    Attributes:
        at_most: maximum number of texts per call if a deadline is set; None for no maximum.
        instruction: for scorers that take one; texts with different ones share no call.
    """

    scorer: Scorer
    query: str
    texts: Sequence[str]
    at_most: int | None = None
    instruction: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Ask(Generic[R, T]):
    """Effect: send independent questions to a service, as one round. Result: a list of Answers."""

    service: Service[R]
    questions: Sequence[Question[R, T]]


@dataclass(frozen=True, slots=True)
class RoundsLeft:
    """Effect: how many more rounds of ``questions`` the limits allow, estimated by those so far.

    Its result is an int of at least 0; None without limits.

    Attributes:
        repairs: whether they would repair other questions: ``limits.repair`` may not allow that,
            and a dry run does not.
    """

    questions: int = 1
    repairs: bool = False


@dataclass(frozen=True, slots=True)
class LimitsLeft:
    """Effect: what the limits leave for questions. Result: a :class:`~secondpass.limits.Left`."""


@dataclass(frozen=True, slots=True)
class Raised:
    """Effect: the user's own code raised ``error``. Its result is None.

    Reports contain only its class. The driver keeps the exception for the ``__cause__`` of
    :class:`~secondpass.errors.RerankError`, and passes it to :mod:`secondpass.runtime.diagnostics`.
    """

    error: BaseException
    source: str


@dataclass(frozen=True, slots=True)
class Ran:
    """Effect: a local model ran; the report lists its engine. Its result is None."""

    engine: EngineInfo


@dataclass(frozen=True, slots=True)
class Interim:
    """Effect: an interim judgement of a method. Its result is None.

    A listener gets a ranking made of it before the method continues. A judgement of another task
    than that of the pass is ignored: :func:`secondpass.strategies.interim.converted` converts it.

    Attributes:
        task: the task of the method.
        judgement: returns what the method would return if it ended here. Called at once, or never.
    """

    task: Task
    judgement: Callable[[], Judgement]


@dataclass(frozen=True, slots=True)
class Started:
    """Effect: a method starts to judge, for observers. Its result is passed to :class:`Ended`.

    :func:`secondpass.runtime.judgements.judged` yields it for every method if there is an observer.

    Attributes:
        method: its name.
        texts: number of texts that it judges.
    """

    method: str
    texts: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Effect: a method has ended, and with it those that it ran. Its result is None.

    Attributes:
        started: the result of its :class:`Started`; None without an observer.
        scored: number of texts that have a score; None if it failed.
        error: the code of its error, or None.
    """

    started: Any
    scored: int | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KeepTime:
    """Effect: a method begins, which leaves time for the methods after it; or it ends.

    :func:`secondpass.strategies.parts.in_turn` yields it at the beginning and at the end.

    Attributes:
        last: whether no method follows, except those that follow the method that runs it.
        before: at the end, the result of the effect at the beginning; else None.
        until_scored: whether the methods after it run only if it scores nothing.
    """

    last: bool
    before: Any = None
    until_scored: bool = False


_Notification: TypeAlias = Raised | Ran | Interim | Started | Ended
Immediate: TypeAlias = RoundsLeft | LimitsLeft | KeepTime | _Notification
"""Effects that call neither a scorer nor a service."""

Effect: TypeAlias = Score | Ask[Any, Any] | Immediate
Plan: TypeAlias = Generator[Effect, Any, T]
"""A generator that yields effects and returns a T."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a method is to judge. Copy it with :func:`dataclasses.replace`: fields may be added.

    Attributes:
        query: the rendered query.
        texts: the rendered candidates.
        candidates: the candidates, aligned with ``texts``.
        context: what the caller passed for this query.
        windows: the windows of each text; None if texts are judged whole.
        mean: whether the score of a text is the mean over its windows, rather than the highest.
        spans: the best span of each text by the stages before in a cascade; None if there is none.
        instruction: what counts as relevant in this call; None for none.
        text_tokens: in a dry run, tokens by (text, length shown), since prompts are not rendered.
    """

    query: str
    texts: Sequence[str]
    candidates: Sequence[Candidate]
    context: Any = None
    windows: Sequence[Windows] | None = None
    mean: bool = False
    spans: Sequence[Span | None] | None = None
    instruction: str | None = field(default=None, repr=False)
    text_tokens: Mapping[Any, float] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The scores that a method returns, aligned with the texts of its task.

    Attributes:
        scores: a finite float for each text that was judged, else None.
        unjudged: indices that were not judged because a call failed. An index without a score that
            is not listed here was shown to the method and is missing from its answer.
        issues: what went wrong; positions are indices into the task.
        stage_scores: for cascades, the scores of every stage that judged each text.
        beyond: indices that the method does not judge; they join the tail. If these are all, as for
            a single candidate, the input order is kept and the report is ``ok``.
        degraded: whether a part of the method failed, and another part determined the order.
        score_kind: what these scores mean, if that differs from the method's ``score_kind``. The
            scores are not used if a floor or a blend depends on the kind.
        original: weight of the original order in the final score, 0 to 1, in place of the blend's
            if that is lower; the report is ``degraded`` if it is more than 0. With 1, the scores
            are ignored, the original order is kept without trying a fallback, and the report is
            ``unchanged``. None leaves it to the blend.
        spans: the best-matching part of each text as (start, stop); None for texts without one.
        spreads: see :attr:`secondpass.types.Ranked.spread`; None for texts without one.
        order_scores: what decides the order in place of ``scores``, which are reported and compared
            with thresholds; a finite float wherever there is a score. None: ``scores`` decide.
    """

    scores: Sequence[float | None]
    unjudged: frozenset[int] = frozenset()
    issues: Sequence[Issue] = ()
    stage_scores: Sequence[tuple[float, ...]] | None = None
    beyond: frozenset[int] = frozenset()
    degraded: bool = False
    score_kind: ScoreKind | None = None
    original: float | None = None
    spans: Sequence[Span | None] | None = None
    spreads: Sequence[float | None] | None = None
    order_scores: Sequence[float | None] | None = None


class Method(Protocol):
    """Judges candidates: an adapted scorer, or a strategy that asks a model.

    Optional members:
        parts(task): of a method that runs others: these, each with the task that it is given if
            none of them changes the order.
        windows: what :meth:`judge` gets of texts that are split into windows: ``each`` window as a
            separate text, for scores that do not depend on the other texts; ``one`` window of each
            candidate (the default), the best by the stage before, or else by its words; or
            ``task``: whole texts, with the windows in the task.
        takes_instruction: whether :meth:`judge` uses the ``instruction`` of its task; default
            False. If not, the report of a call with an instruction has ``instruction_not_used``.
    """

    @property
    def name(self) -> str:
        """The name of the method, for reports."""

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""

    @property
    def scale(self) -> tuple[float, float] | None:
        """Lowest and highest grade; None unless the scores are grades."""

    def judge(self, task: Task) -> Plan[Judgement]:
        """Judge the candidates of the task.

        Raises:
            MethodError: no candidate could be judged.
        """

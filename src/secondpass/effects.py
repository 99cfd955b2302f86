"""Effects of a ranking pass, and the protocol of methods.

A pass is a generator. It yields effects, Score and Ask, and is sent their results; it opens no
connection and starts no thread. A driver (:mod:`secondpass.asking.drivers`) carries the effects
out. So sync and async share all logic, passes nest by ``yield from``, and tests need no models.
What needs only the ledger of the same pass, such as its limits, is a method of :class:`Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from secondpass.attributes import unchangeable
from secondpass.errors import MethodError
from secondpass.questions import Answer, Question, RawScores, Scorer, Service, Span, Windows
from secondpass.settings.arguments import explained
from secondpass.types import Candidate, DegradedBy, EngineInfo, Issue, Piece, ScoreKind

R = TypeVar("R")
T = TypeVar("T")


@unchangeable
@dataclass(frozen=True, slots=True)
class Score:
    """Effect: score ``texts`` for ``query``. Its result is a :class:`RawScores`.

    Attributes:
        at_most: maximum number of texts per call if there is a deadline; within
            :meth:`Call.sharing` only until a call of the scorer has ended, from when on the time
            decides. None: never divided among calls, because a score depends on the others.
        instruction: for scorers that take one; texts with different ones share no call.
    """

    scorer: Scorer
    query: str
    texts: Sequence[str]
    at_most: int | None = None
    instruction: str | None = field(default=None, repr=False)

    def __iter__(self) -> Generator[Score, RawScores, RawScores]:
        """``raw = yield from Score(...)`` yields the effect; the type of its result is known."""
        return (yield self)


@unchangeable
@dataclass(frozen=True, slots=True)
class Ask(Generic[R, T]):
    """Effect: send independent questions to a service, as one round. Result: a list of Answers."""

    service: Service[R]
    questions: Sequence[Question[R, T]]

    def __iter__(self) -> Generator[Ask[R, T], list[Answer[T]], list[Answer[T]]]:
        """``answers = yield from Ask(...)`` yields the effect, as :class:`Score` does."""
        return (yield self)


@dataclass(frozen=True, slots=True)
class Left:
    """What the limits of a ranking leave; None where there is no limit.

    Attributes:
        calls: number of questions.
        tokens: of prompts and replies.
        cost: in the currency of the prices.
        seconds: until questions end.
        concurrency: maximum number of concurrent questions.
        question_seconds: how long the rounds of questions so far took in all.
        question_waves: number of waves of concurrent questions in these rounds: a round of more
            than ``concurrency`` questions takes several.
    """

    calls: int | None = None
    tokens: float | None = None
    cost: float | None = None
    seconds: float | None = None
    concurrency: int = 8
    question_seconds: float = 0.0
    question_waves: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether anything limits how much is asked, other than the concurrency."""
        limits = (self.calls, self.tokens, self.cost, self.seconds)
        return any(limit is not None for limit in limits)


class Call:
    """What a method can know and say of the ranking that it is part of: ``task.call``.

    This one is part of no ranking: nothing is limited, and nothing is recorded.
    :class:`secondpass.ranking.ledger.PassCall` is that of a ranking, and of a dry run.

    Attributes:
        relay: gets the interim judgements, with their tasks; None if nobody listens.
    """

    relay: Relay | None = None

    def rounds_left(self, questions: int = 1, *, repairs: bool = False) -> int | None:
        """How many more rounds of ``questions`` the limits allow, estimated by those so far.

        Args:
            questions: number of questions in a round.
            repairs: whether they would repair other questions: ``limits.repair`` may not allow
                that, and a dry run does not.

        Returns:
            At least 0; None if nothing is known that limits them: without limits, and with a
            deadline only, as long as no round has shown how long one takes.
        """
        return None

    def limits_left(self) -> Left:
        """What the limits leave for questions."""
        return Left()

    def keeping_time(
        self, last: bool, *, until_scored: bool = False
    ) -> AbstractContextManager[None]:
        """For the time of a method: it leaves some of the time to the methods after it.

        Args:
            last: whether no method follows, except those that follow the method that runs it.
            until_scored: whether the methods after it run only if it scores nothing, so that it has
                all of the time once it has scored something.
        """
        return nullcontext()

    def sharing(
        self, scorer: object, texts: int, batch_size: int | None, most_at_first: int
    ) -> AbstractContextManager[None]:
        """For the time in which a scorer is called for texts, taking turns with other rankings.

        Args:
            scorer: the scorer.
            texts: number of the texts.
            batch_size: maximum number of texts per call; None for no maximum.
            most_at_first: maximum number of texts per call as long as no call of this scorer has
                ended.
        """
        return nullcontext()

    def interim(self, task: Task, judgement: Callable[[], Judgement]) -> Plan[None]:
        """An interim judgement: ``yield from task.call.interim(task, judgement)``.

        A listener gets a ranking made of it before the method continues; its ordering may take
        effects. A judgement of another task than that of the pass is ignored:
        :func:`secondpass.ranking.judgements.converted` converts it.

        Args:
            task: the task of the method.
            judgement: returns what the method would return if it ended here. Called at once, or
                never.
        """
        if self.relay is not None:
            yield from self.relay(task, judgement)

    def heard_by(self, relay: Relay | None) -> Call:
        """A copy with another listener to interim judgements; None: these are ignored."""
        call = copy(self)
        call.relay = relay
        return call

    def started(self, method: Method, texts: int) -> object:
        """A method starts to judge a number of texts; the result is for :meth:`ended`.

        :func:`secondpass.ranking.judgements.judged` calls it for every method.
        """
        return None

    def ended(self, started: object, result: Judgement | MethodError) -> None:
        """A method has returned or failed with this result; those that it ran end with it."""

    def raised(self, error: BaseException, source: str) -> None:
        """The user's own code raised ``error``.

        Reports contain only its class. The ranking keeps the exception for the ``__cause__`` of
        :class:`~secondpass.ranking.result.RerankError`, and :mod:`secondpass.ranking.diagnostics`
        logs it.
        """

    def ran(self, engine: EngineInfo) -> None:
        """A local model ran; the report lists its engine, even if the method fails afterwards."""

    def encoded(self, known: int, encoded: int) -> None:
        """Count passages whose encoding was known, and those that were encoded."""


Relay: TypeAlias = "Callable[[Task, Callable[[], Judgement]], Plan[None]]"


Effect: TypeAlias = Score | Ask[Any, Any]
Plan: TypeAlias = Generator[Effect, Any, T]
"""A generator that yields effects and returns a T."""


@unchangeable
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
        call: what the method can know and say of the ranking.
    """

    query: str
    texts: Sequence[str]
    candidates: Sequence[Candidate]
    context: Any = None
    windows: Sequence[Windows] | None = None
    mean: bool = False
    spans: Sequence[Span | None] | None = None
    instruction: str | None = field(default=None, repr=False)
    call: Call = field(default=Call(), repr=False, compare=False)


@explained()
@unchangeable
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
        degraded_by: why the report is ``degraded``, beside what other attributes and the issues
            say: ``stage`` if a part of the method failed, and others determined the order.
        score_kind: what these scores mean, if that differs from the method's ``score_kind``. The
            scores are not used if a threshold or a blend depends on the kind.
        original: weight of the original order in the final score, 0 to 1, in place of the blend's
            if that is lower; the report is ``degraded`` if it is more than 0. With 1, the scores
            are ignored, the original order is kept without trying a fallback, and the report is
            ``unchanged``. None leaves it to the blend.
        spans: the best-matching part of each text as (start, stop); None for texts without one.
        order_scores: what decides the order in place of ``scores``, which are reported and compared
            with thresholds; a finite float wherever there is a score. None: ``scores`` decide.
        pieces: see :attr:`secondpass.types.Ranked.pieces`; None for texts without any.
    """

    scores: Sequence[float | None]
    unjudged: frozenset[int] = frozenset()
    issues: Sequence[Issue] = ()
    stage_scores: Sequence[tuple[float, ...]] | None = None
    beyond: frozenset[int] = frozenset()
    degraded_by: Collection[DegradedBy] = ()
    score_kind: ScoreKind | None = None
    original: float | None = None
    spans: Sequence[Span | None] | None = None
    order_scores: Sequence[float | None] | None = None
    pieces: Sequence[Sequence[Piece] | None] | None = None


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

"""Effects of a ranking pass, and the protocols of scorers and methods.

A pass is a generator. It yields effects and is sent their results; it opens no connection, starts
no thread and reads no clock. A driver (:mod:`secondpass.runtime.drivers`) carries the effects out.
So sync and async share all of the logic, passes nest by ``yield from``, and tests send results in.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from secondpass.errors import MethodError
from secondpass.questions import (
    LLM,
    Answer,
    Completion,
    Estimate,
    Prompt,
    Question,
    Service,
    Turn,
)
from secondpass.types import Candidate, EngineInfo, Issue, ScoreKind

__all__ = [
    "LLM",
    "Answer",
    "Ask",
    "Completion",
    "Effect",
    "Estimate",
    "Judgement",
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
    "Task",
    "Turn",
    "Windows",
]

R = TypeVar("R")
T = TypeVar("T")

Span: TypeAlias = tuple[int, int]
"""A range of characters of a text: (start, stop), with 0 <= start < stop <= its length."""


@runtime_checkable
class Scorer(Protocol):
    """Returns a float for each query-document pair. Any class with these two members is a scorer.

    Optional members:
        score_kind: a :data:`secondpass.types.ScoreKind`; default ``unbounded``.
        scale: ``(lowest, highest)``, for the score kind ``grade``.
        score_many(requests): scores a list of ``(query, documents)`` tuples and returns a list of
            lists; ``rerank_many`` calls it to form batches across queries.
        pointwise: whether the score of a document is independent of the others; default True. If a
            deadline is set, pointwise scorers score a part of the documents at a time.
        score_batches(requests, deadline): a generator of those parts. After each, it yields a list
            of ``(index of the request, index of the document, score)``, and it ends before
            ``deadline``, a value of :func:`time.monotonic` or None. If it is late, it is closed
            after its part.
        batch_size: without ``score_batches``, the number of documents in a part; default 32.
        score_lists(requests, deadline): for scores that depend on the whole list; called in place
            of the methods above, with or without a deadline. A generator; each time, it yields a
            list with one :class:`ListScores` per request, made from the documents read so far. It
            replaces those before; the last one counts. It ends before ``deadline``, or is closed
            after its part. A call has several requests only without a deadline.
        joins_calls: whether calls from several threads share batches, and a thread that calls only
            waits; default False. Then more of them are made at a time.
        engine: an :class:`~secondpass.types.EngineInfo` for the report, or None while no model is
            loaded. It must not wait for a model that another thread loads.
        warm_up(), close(): load the model, release it.
    """

    @property
    def model_name(self) -> str: ...

    def score_pairs(self, query: str, documents: list[str]) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class ListScores:
    """What ``score_lists`` yields for one list of documents.

    Attributes:
        scores: one per document; None for one that was not scored.
        issues: for the report; positions are indices of documents, and ids are ignored. Messages
            are passed on, so they must not contain texts.
        original: weight of the original order in the final score, 0 to 1, in place of the blend's
            if that is lower. 1 keeps the original order, and the scores are ignored. None leaves it
            to the blend.
        spans: (start, stop) of the part of each document that matches best, None for those without.
            Where the documents are windows of longer texts, the best window is reported instead.
    """

    scores: Sequence[Any]
    issues: Sequence[Issue] = ()
    original: float | None = None
    spans: Sequence[Span | None] | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Effect: score ``texts`` for ``query``. Its result is a :class:`RawScores`.

    Attributes:
        at_most: maximum number of texts per call if a deadline is set; None for no maximum.
    """

    scorer: Scorer
    query: str
    texts: Sequence[str]
    at_most: int | None = None


@dataclass(slots=True)
class RawScores:
    """What a scorer returned. Only the values are not validated.

    Attributes:
        values: one per text; undefined for texts whose call failed.
        failures: ranges of texts whose call failed, as (start, stop, error).
        troubles: errors that left no text without a score.
        called: whether the scorer was called at all.
        issues, original, spans: see :class:`ListScores`.
    """

    values: list[Any]
    failures: list[tuple[int, int, MethodError]] = field(default_factory=list)
    troubles: list[MethodError] = field(default_factory=list)
    called: bool = True
    issues: Sequence[Issue] = ()
    original: float | None = None
    spans: Sequence[Span | None] | None = None


@dataclass(frozen=True, slots=True)
class Ask(Generic[R, T]):
    """Effect: send independent questions to a service, as one round. Result: a list of Answers."""

    service: Service[R]
    questions: Sequence[Question[R, T]]


@dataclass(frozen=True, slots=True)
class RoundsLeft:
    """Effect: how many more rounds of one question time and budget allow, by those so far.

    Its result is an int of at least 0; None without limits.
    """


@dataclass(frozen=True, slots=True)
class Raised:
    """Effect: the user's own code raised ``error``. Its result is None.

    Reports contain only its class. The driver keeps the exception for the ``__cause__`` of
    :class:`~secondpass.errors.RerankError`, and passes it to :mod:`secondpass.diagnostics`.
    """

    error: BaseException
    source: str


@dataclass(frozen=True, slots=True)
class Ran:
    """Effect: a local model ran; the report lists its engine. Its result is None."""

    engine: EngineInfo


Effect: TypeAlias = Score | Ask[Any, Any] | RoundsLeft | Raised | Ran
Plan: TypeAlias = Generator[Effect, Any, T]
"""A generator that yields effects and returns a T."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one text.

    Attributes:
        spans: the part of the body that each window has.
        body: the part of the text that is split. What is before and after it is in every window.
    """

    spans: Sequence[Span]
    body: Span

    def text(self, text: str, span: Span) -> str:
        """Return the text of a window."""
        return text[: self.body[0]] + text[slice(*span)] + text[self.body[1] :]


@dataclass(frozen=True, slots=True)
class Task:
    """What a method is to judge. Copy it with :func:`dataclasses.replace`: fields may be added.

    Attributes:
        query: the rendered query.
        texts: the rendered candidates.
        candidates: the candidates, aligned with ``texts``.
        context: what the caller passed for this query.
        windows: the windows of each text; None if texts are judged whole.
        mean: whether the score of a text is the mean of those of its windows, not the best.
        spans: what earlier stages of a cascade found best in each text; None where nothing.
    """

    query: str
    texts: Sequence[str]
    candidates: Sequence[Candidate]
    context: Any = None
    windows: Sequence[Windows] | None = None
    mean: bool = False
    spans: Sequence[Span | None] | None = None


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
        degraded: whether a part of the method failed and another part gave the order instead.
        score_kind: what these scores mean, if that differs from the method's ``score_kind``. The
            scores are not used if a floor or a blend depends on the kind.
        original: weight of the original order in the final score, 0 to 1, in place of the blend's
            if that is lower; the report is ``degraded`` if it is more than 0. With 1, the scores
            are ignored, the original order is kept without trying a fallback, and the report is
            ``unchanged``. None leaves it to the blend.
        spans: the part of each text that matches best, None for those without.
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


class Method(Protocol):
    """Judges candidates: an adapted scorer, or a strategy that asks a model.

    Optional members:
        bounds(count): the :class:`~secondpass.strategies.base.Bounds` of questions that it asks
            services about ``count`` texts.
        windows: what :meth:`judge` is given of texts that are split into windows: ``each`` window
            as a text of its own, for scores that do not depend on the other texts; ``one``, the
            default: of each candidate the window that the stage before found best, else the best
            by its words; or ``task``: whole texts, with the windows in the task.
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

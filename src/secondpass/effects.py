"""What a ranking pass asks of the world outside.

A pass is a generator. It yields effects and is sent their results; it opens no connection, starts
no thread and reads no clock. A driver (:mod:`secondpass.runtime.drivers`) carries the effects out.
So the synchronous and the asynchronous interface share every line of logic, passes nest by
``yield from``, and all of it is tested by sending answers in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from secondpass.errors import MethodError
from secondpass.types import Candidate, Issue, ScoreKind

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")


@runtime_checkable
class Scorer(Protocol):
    """Gives a float for each query-document pair. Any class with these two members is one.

    Optional members:

    ``score_kind``
        a :data:`secondpass.types.ScoreKind`; ``unbounded`` where absent.
    ``scale``
        ``(lowest, highest)``, for the score kind ``grade``.
    ``score_many(requests)``
        scores a list of ``(query, documents)`` in one go and returns a list of lists; used by
        ``rerank_many`` so that batches form across queries.
    ``pointwise``
        False where a document's score depends on the others of its list (True where absent).
        Pointwise scorers are called with a part of the documents at a time when a deadline is set.
    ``batch_size``
        how many documents that part holds (32 where absent).
    ``warm_up()``
        loads what is needed for the first call.
    ``close()``
        lets go of it.
    """

    @property
    def model_name(self) -> str: ...

    def score_pairs(self, query: str, documents: list[str]) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Score:
    """Effect: score ``texts`` for ``query``. Its result is a :class:`RawScores`.

    Attributes:
        at_most: texts a call while a deadline runs; None for all at once.
    """

    scorer: Scorer
    query: str
    texts: Sequence[str]
    at_most: int | None = None


@dataclass(slots=True)
class RawScores:
    """What a scorer returned, unread.

    Attributes:
        values: one per text; meaningless where a failure covers the index.
        failures: stretches of texts whose call failed, as (start, stop, why).
        troubles: faults that cost no text its score.
    """

    values: list[Any]
    failures: list[tuple[int, int, MethodError]] = field(default_factory=list)
    troubles: list[MethodError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation with a language model."""

    role: Literal["user", "assistant"]
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is sent.

    Attributes:
        system: the standing instructions; may be empty.
        turns: the conversation; the last turn is the user's.
        schema: the JSON Schema of the reply (its root an object); None for a reply of another form.
    """

    system: str = field(repr=False)
    turns: tuple[Turn, ...]
    schema: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model replied.

    Attributes:
        text: the reply; may be empty.
        cut: whether it ended because it reached its longest allowed length.
        input_tokens: None where the server did not say.
        output_tokens: None where the server did not say.
    """

    text: str = field(repr=False)
    cut: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None


class Service(Protocol[R_contra]):
    """Answers one request; knows nothing of rankings.

    Optional members: ``prices`` (a :class:`secondpass.llms.Prices`), ``timeout`` (seconds that one
    answer may take, 60 where absent), ``own_code`` (True if exceptions other than LLMError are to
    become the ``__cause__`` of RerankError; they may hold passages and keys), ``warm_up()``,
    ``close()``, ``check_installed()``.
    """

    @property
    def name(self) -> str:
        """The model, for reports."""

    async def complete(self, request: R_contra, /) -> Completion:
        """Answer the request, asking once.

        Raises:
            LLMError: no answer came; it says whether asking again may help.
        """


LLM: TypeAlias = Service[Prompt]
"""A language model answers prompts. One more optional member: ``context_window``, the tokens that
prompt and reply may have together."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how many tokens a question will take."""

    input_tokens: float
    output_tokens: float

    @property
    def tokens(self) -> float:
        """Both together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Question(Generic[R, T]):
    """A request, and how its reply is read.

    Attributes:
        request: what is sent.
        read: makes an answer of a completion; raises
            :class:`~secondpass.errors.ReplyError` for one that cannot be used.
        reminder: what a usable reply looks like, for asking a language model once more; None where
            that is of no use.
        shrink: the same question with its passages cut to half of their size, for a server that
            found it too long; None where there is nothing left to cut.
        estimate: about how many tokens prompt and reply will have.
        documents: how many candidates it is about.
    """

    request: R
    read: Callable[[Completion], T] = field(repr=False)
    reminder: str | None
    shrink: Callable[[], Question[R, T] | None] = field(repr=False)
    estimate: Estimate
    documents: int


@dataclass(frozen=True, slots=True)
class Ask(Generic[R, T]):
    """Effect: put questions that do not need each other's answers to a service.

    Its result is a list of :class:`Answer`, one per question. All of them make one round.
    """

    service: Service[R]
    questions: Sequence[Question[R, T]]


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What came of a question.

    Attributes:
        value: the answer as read; None where there is none.
        error: why there is none.
        troubles: faults on the way that were got over by asking again.
    """

    value: T | None = None
    error: MethodError | None = None
    troubles: tuple[MethodError, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundsLeft:
    """Effect: how many more rounds of one question may be had before time or budget ends.

    Its result is an int, 0 or more, judged by the rounds so far; None where nothing limits them.
    """


@dataclass(frozen=True, slots=True)
class Raised:
    """Effect: code that is not part of secondpass raised ``error``. Its result is None.

    Reports name only its class. The driver keeps the exception itself for the ``__cause__`` of
    :class:`~secondpass.errors.RerankError`, and passes it to :mod:`secondpass.diagnostics`.
    """

    error: BaseException
    source: str


Effect: TypeAlias = Score | Ask[Any, Any] | RoundsLeft | Raised
Plan: TypeAlias = Generator[Effect, Any, T]
"""A computation that yields effects and returns a T."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a method is asked to judge.

    Attributes:
        query: as rendered.
        texts: the rendered candidates.
        candidates: the candidates themselves, aligned with ``texts``.
        context: whatever the caller gave for this query.
    """

    query: str
    texts: Sequence[str]
    candidates: Sequence[Candidate]
    context: Any = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A method's answer, aligned with the texts of its task.

    Attributes:
        scores: a finite float for each text that was judged, else None.
        unjudged: indices that were not judged because a call failed. An index that has neither a
            score nor a place here was shown to the method and is missing from its answer.
        issues: what went wrong; their positions are indices into the task.
        stage_scores: for cascades, the scores of every stage that judged each text.
        beyond: indices that the method is not meant to judge; they go with the tail. Where these
            are all, as for a single candidate, the order that came in stays and the report is ok.
        degraded: whether a part of the method failed and another gave the order in its place.
        score_kind: what these scores mean, where that differs from the method's ``score_kind``.
            Refused where a floor or a blend depends on the kind.
    """

    scores: Sequence[float | None]
    unjudged: frozenset[int] = frozenset()
    issues: Sequence[Issue] = ()
    stage_scores: Sequence[tuple[float, ...]] | None = None
    beyond: frozenset[int] = frozenset()
    degraded: bool = False
    score_kind: ScoreKind | None = None


class Method(Protocol):
    """Judges candidates. A scorer becomes one; strategies that ask a model are ones."""

    @property
    def name(self) -> str:
        """For reports."""

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""

    @property
    def scale(self) -> tuple[float, float] | None:
        """Lowest and highest grade, where the scores are grades."""

    def judge(self, task: Task) -> Plan[Judgement]:
        """Judge the task.

        Raises:
            MethodError: nothing could be judged.
        """

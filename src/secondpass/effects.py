"""Effects of a ranking pass, and the protocols of scorers, services and methods.

A pass is a generator. It yields effects and is sent their results; it opens no connection, starts
no thread and reads no clock. A driver (:mod:`secondpass.runtime.drivers`) carries the effects out.
So sync and async share all of the logic, passes nest by ``yield from``, and tests send results in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from secondpass.errors import MethodError
from secondpass.types import Candidate, EngineInfo, Issue, ScoreKind

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")


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
        engine: an :class:`~secondpass.types.EngineInfo` for the report, or None while no model is
            loaded. It must not wait for a model that another thread loads.
        warm_up(), close(): load the model, release it.
    """

    @property
    def model_name(self) -> str: ...

    def score_pairs(self, query: str, documents: list[str]) -> Sequence[float]: ...


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
    """What a scorer returned, not validated.

    Attributes:
        values: one per text; undefined for texts whose call failed.
        failures: ranges of texts whose call failed, as (start, stop, error).
        troubles: errors that left no text without a score.
        called: whether the scorer was called at all.
    """

    values: list[Any]
    failures: list[tuple[int, int, MethodError]] = field(default_factory=list)
    troubles: list[MethodError] = field(default_factory=list)
    called: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation with a language model."""

    role: Literal["user", "assistant"]
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt for a language model.

    Attributes:
        system: the system prompt; may be empty.
        turns: the conversation; the last turn is the user's.
        schema: the JSON Schema of the reply, whose root is an object; None if it is not JSON.
    """

    system: str = field(repr=False)
    turns: tuple[Turn, ...]
    schema: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Completion:
    """The reply of a service.

    Attributes:
        text: the reply; may be empty.
        cut: whether it was truncated at its maximum length.
        input_tokens, output_tokens: None if the server did not report it.
    """

    text: str = field(repr=False)
    cut: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None


class Service(Protocol[R_contra]):
    """Answers single requests: a language model or a rerank API.

    Optional members: ``prices`` (a :class:`secondpass.llms.Prices`), ``timeout`` (seconds per
    request, default 60), ``own_code`` (True if exceptions other than LLMError, which may hold
    passages and keys, become the ``__cause__`` of RerankError), ``warm_up()``, ``close()``,
    ``check_installed()``.
    """

    @property
    def name(self) -> str:
        """The name of the model, for reports."""

    async def complete(self, request: R_contra, /) -> Completion:
        """Send the request once and return the reply.

        Raises:
            LLMError: there is no reply; the error says whether a retry may help.
        """


LLM: TypeAlias = Service[Prompt]
"""A language model answers prompts. Optional member: ``context_window``, the maximum number of
tokens of prompt and reply together."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated number of tokens of a question and its reply."""

    input_tokens: float
    output_tokens: float

    @property
    def tokens(self) -> float:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Question(Generic[R, T]):
    """A request, and how its reply is read.

    Attributes:
        request: what is sent.
        read: converts a completion to the value of an :class:`Answer`; raises
            :class:`~secondpass.errors.ReplyError` if the completion cannot be used.
        reminder: describes a usable reply, to ask a language model once more; None to not repair.
        shrink: returns the same question with passages of half the length, for a server that found
            it too long; or None if nothing is left to cut.
        estimate: estimated tokens of prompt and reply.
        documents: number of candidates in the question.
    """

    request: R
    read: Callable[[Completion], T] = field(repr=False)
    reminder: str | None
    shrink: Callable[[], Question[R, T] | None] = field(repr=False)
    estimate: Estimate
    documents: int


@dataclass(frozen=True, slots=True)
class Ask(Generic[R, T]):
    """Effect: send independent questions to a service, as one round. Result: a list of Answers."""

    service: Service[R]
    questions: Sequence[Question[R, T]]


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The result of a question.

    Attributes:
        value: what :attr:`Question.read` returned; None if there is an error.
        error: why there is no value.
        troubles: errors from which a retry or a repair recovered.
    """

    value: T | None = None
    error: MethodError | None = None
    troubles: tuple[MethodError, ...] = ()


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
class Task:
    """What a method is to judge. Copy it with :func:`dataclasses.replace`: fields may be added.

    Attributes:
        query: the rendered query.
        texts: the rendered candidates.
        candidates: the candidates, aligned with ``texts``.
        context: what the caller passed for this query.
    """

    query: str
    texts: Sequence[str]
    candidates: Sequence[Candidate]
    context: Any = None


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
    """

    scores: Sequence[float | None]
    unjudged: frozenset[int] = frozenset()
    issues: Sequence[Issue] = ()
    stage_scores: Sequence[tuple[float, ...]] | None = None
    beyond: frozenset[int] = frozenset()
    degraded: bool = False
    score_kind: ScoreKind | None = None


class Method(Protocol):
    """Judges candidates: an adapted scorer, or a strategy that asks a model."""

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

"""Protocols of models: scorers, language models and rerank APIs; their questions and replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from secondpass.errors import MethodError
from secondpass.types import Issue

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")

Span: TypeAlias = tuple[int, int]
"""A range of characters of a text: (start, stop), with 0 <= start < stop <= its length."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one text.

    Attributes:
        spans: of each window, the part of the body that it shows.
        body: the part of the text that is split. The text before and after it is in every window.
    """

    spans: Sequence[Span]
    body: Span

    def text(self, text: str, span: Span) -> str:
        """Return the text of a window."""
        return text[: self.body[0]] + text[slice(*span)] + text[self.body[1] :]


@runtime_checkable
class Scorer(Protocol):
    """Returns a float for each query-document pair. Any class with these two members is a scorer.

    Optional members:
        score_kind: a :data:`secondpass.types.ScoreKind`; default ``unbounded``.
        scale: ``(lowest, highest)``, for the score kind ``grade``.
        score_many(requests): scores a list of ``(query, documents)`` tuples and returns a list of
            lists; ``rerank_many`` calls it to form batches across queries.
        pointwise: whether the score of a document does not depend on the others; default True. If a
            deadline is set, pointwise scorers score a part of the documents at a time.
        score_batches(requests, deadline): a generator of those parts. After each, it yields a list
            of ``(index of the request, index of the document, score)``, and it ends before
            ``deadline``, a value of :func:`time.monotonic` or None. A late one is closed after the
            part that it is computing.
        batch_size: without ``score_batches``, the number of documents in a part; default 32.
        score_lists(requests, deadline): for scores that depend on the whole list; called in place
            of the methods above, with or without a deadline. A generator; each time, it yields a
            list with one :class:`ListScores` per request, made from the documents read so far. The
            last list counts. It ends before ``deadline``, or is closed after its part. A call has
            several requests only without a deadline.
        joins_calls: whether calls from several threads share batches, so that the calling threads
            only wait; default False. If true, more calls are made at a time.
        engine: an :class:`~secondpass.types.EngineInfo` for the report, or None while no model is
            loaded. It must not wait for a model that another thread loads.
        takes_instruction: whether the methods above take the keyword ``instruction``; default
            False. It is passed if a call has one, and requests of one call have the same.
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


@dataclass(slots=True)
class RawScores:
    """What a scorer returned. Only the values are not validated.

    Attributes:
        values: one per text; undefined for texts whose call failed.
        failures: ranges of texts whose call failed, as (start, stop, error).
        troubles: errors in spite of which every text has a score.
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
        logprobs: number of alternatives per token of the reply whose log probabilities are
            requested; 0 requests none.
        needs_logprobs: whether a reply without them is useless. A server that rejects them is then
            not asked; otherwise it is asked without.
        words: the words of which a reply is one, if only its first token is read; the server need
            not write more.
    """

    system: str = field(repr=False)
    turns: tuple[Turn, ...]
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    logprobs: int = 0
    needs_logprobs: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """The reply of a service.

    Attributes:
        text: the reply; may be empty.
        cut: whether it was truncated at its maximum length.
        input_tokens, output_tokens: None if the server did not report them.
        logprobs: for each token of the reply, the natural log probabilities (at most 0) of the
            token itself, which comes first, and of its alternatives, by their text. None if the
            server did not report them.
        units: billed units that are no tokens, such as the search units of rerank APIs; None if the
            server reports none.
    """

    text: str = field(repr=False)
    cut: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    logprobs: Sequence[Mapping[str, float]] | None = field(default=None, repr=False)
    units: float | None = None


class Service(Protocol[R_contra]):
    """Answers single requests: a language model or a rerank API.

    Optional members: ``prices`` (a :class:`secondpass.llms.Prices`), ``timeout`` (seconds per
    request, default 60), ``own_code`` (True if exceptions other than LLMError, which may hold
    passages and keys, become the ``__cause__`` of RerankError), ``cache_key`` (JSON values that
    name the service, its model and all settings that an answer depends on, without keys; without
    it, or with None, no answer is stored), ``warm_up()``, ``close()``, ``check_installed()``.
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
"""A language model answers prompts. Optional members: ``context_window``, the maximum number of
tokens of prompt and reply together; ``has_logprobs``, whether it returns the log probabilities that
a prompt asks for (default False)."""


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
class Recall(Generic[T]):
    """How the answer to a question is stored, and read in another ranking or process.

    Attributes:
        key: returns everything that the value depends on besides the service: plain values,
            dataclasses of them, and objects with a ``cache_key``. It has places instead of labels
            that are drawn at random.
        dump: returns a value as JSON values, with documents by place; None if it should not be
            stored; raises TypeError if it cannot be stored.
        load: the reverse of ``dump``; raises an exception if the data is no answer to the question.
    """

    key: Callable[[], Any] = field(repr=False)
    dump: Callable[[T], Any] = field(repr=False)
    load: Callable[[Any], T] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Question(Generic[R, T]):
    """A request, and how its reply is read.

    Attributes:
        request: what is sent.
        read: converts a completion to the value of an :class:`Answer`; raises
            :class:`~secondpass.errors.ReplyError` if the completion cannot be used.
        reminder: describes a usable reply, to ask a language model once more; None for no repair.
        shrink: returns the same question with passages of half the length, for a server that
            rejected it as too long; None if nothing is left to cut.
        estimate: estimated tokens of prompt and reply.
        documents: number of candidates in the question.
        assumed: the value that a dry run uses; None to leave the question unanswered.
        shortened: whether passages were cut to fit the context window of the model.
        recall: how its answer is stored; None if it cannot be.
    """

    request: R
    read: Callable[[Completion], T] = field(repr=False)
    reminder: str | None
    shrink: Callable[[], Question[R, T] | None] = field(repr=False)
    estimate: Estimate
    documents: int
    assumed: T | None = None
    shortened: bool = False
    recall: Recall[T] | None = field(default=None, repr=False)


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

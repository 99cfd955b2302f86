"""Protocols of models: scorers, language models and rerank APIs; their questions and replies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from secondpass.attributes import unchangeable
from secondpass.errors import MethodError
from secondpass.settings.arguments import explained
from secondpass.types import Issue, Piece

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")

_MIN_LENGTH = 80  # minimum characters of a passage that is cut; a shorter one could not be judged

Span: TypeAlias = tuple[int, int]
"""A range of characters of a text: (start, stop), with 0 <= start < stop <= its length."""


class RenderedText(str):
    """A text for a method that states which parts of it the configuration wrote.

    Prefix, separators and suffix are the operator's: a model's control tokens are tokens there, and
    prefix and suffix stay when the text is cut. All else is content of the query or the candidate:
    it is read as characters, and it is what is cut. Slices and copies are plain strings, all of
    whose characters count as content.

    Attributes:
        written: the parts that the configuration wrote, in order; they do not overlap.
    """

    written: tuple[Span, ...]

    def __new__(cls, text: str, written: tuple[Span, ...] = ()) -> RenderedText:
        """Create the text; ``written`` are spans of it."""
        self = super().__new__(cls, text)
        self.written = written
        return self


def written_spans(text: str) -> tuple[Span, ...]:
    """The parts of a text that the configuration wrote; none of a plain string."""
    return text.written if isinstance(text, RenderedText) else ()


def affixes(text: str) -> tuple[int, int]:
    """The lengths of the prefix and the suffix that the configuration wrote, in characters."""
    written = written_spans(text)
    if not written:
        return 0, 0
    head = written[0][1] if written[0][0] == 0 else 0
    tail = len(text) - written[-1][0] if written[-1][1] == len(text) else 0
    return head, min(tail, len(text) - head)


def joined(parts: Iterable[tuple[str, bool]]) -> str:
    """Join parts of a text; of each, whether the configuration wrote it.

    Returns:
        A plain string if it wrote none.
    """
    texts, written, length = [], [], 0
    for text, by_configuration in parts:
        if by_configuration and text:
            written.append((length, length + len(text)))
        texts.append(text)
        length += len(text)
    whole = "".join(texts)
    return RenderedText(whole, tuple(written)) if written else whole


def sliced(text: str, *ranges: Span) -> str:
    """Join ranges of a text; what the configuration wrote in them stays known."""
    written = written_spans(text)
    if not written:
        return "".join([text[start:stop] for start, stop in ranges])
    parts = []
    for start, stop in ranges:
        place = start
        for first, last in written:
            if first < stop and last > place:
                end = min(last, stop)
                parts += [(text[place:first], False), (text[max(first, place) : end], True)]
                place = end
        parts.append((text[place:stop], False))
    return joined(parts)


def cut(text: str, length: int) -> str:
    """Cut a text before the suffix that the configuration wrote, to a number of characters.

    Prefix and suffix stay even if they have more.
    """
    if len(text) <= length:
        return text
    head, tail = affixes(text)
    end = len(text) - tail
    return sliced(text, (0, max(length - tail, head)), (end, len(text)))


def estimate_tokens(text: str) -> float:
    """The estimated number of tokens of a text: one per four bytes of UTF-8."""
    return len(text) / 4 if text.isascii() else len(text.encode("utf-8", "replace")) / 4


def cut_evenly(texts: Sequence[str], characters: int) -> list[str] | None:
    """Cut the longest texts to one length, so that all have ``characters`` characters together.

    No text is cut to less than 80 characters, or loses a prefix or suffix of the configuration, so
    they may have more. None if nothing can be cut.
    """
    room, left = characters, len(texts)
    for length in sorted(map(len, texts)):
        longest = room // left
        if length > longest:
            break
        room -= length
        left -= 1
    else:
        return None
    if longest < _MIN_LENGTH:
        longest = _MIN_LENGTH
        if all(len(text) <= longest for text in texts):
            return None
    shorter = [cut(text, longest) for text in texts]
    return None if shorter == list(texts) else shorter


def text_key(text: str) -> Any:
    """A key of a text, which differs if the configuration wrote other parts of it."""
    return (str(text), text.written) if isinstance(text, RenderedText) else text


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
        return sliced(text, (0, self.body[0]), span, (self.body[1], len(text)))


@runtime_checkable
class Scorer(Protocol):
    """Returns a float for each query-document pair. Any class with this member is a scorer.

    Optional members:
        model_name: for reports; the name of the class without it.
        score_kind: a :data:`secondpass.types.ScoreKind`; default ``unbounded``.
        scale: ``(lowest, highest)``, for the score kind ``grade``.
        score_many(requests): scores a list of ``(query, documents)`` tuples and returns a list of
            lists; ``rerank_many`` calls it to form batches across queries.
        pointwise: whether the score of a document does not depend on the others; default True. If a
            deadline is set, pointwise scorers score a part of the documents at a time. A scorer
            that sets it to True, or has a ``batch_size``, also does so without a deadline when an
            event loop calls it, so that it ends soon after its caller has left.
        score_batches(requests, deadline): a generator of those parts. After each, it yields a list
            of ``(index of the request, index of the document, score)``, and it ends before
            ``deadline``, a value of :func:`time.monotonic` or None. A late one is closed after the
            part that it is computing.
        batch_size: without ``score_batches``, the maximum number of documents in a part; default
            no maximum, but 32 as long as the time of a call is not known.
        score_lists(requests, deadline): for scores that depend on the whole list; called in place
            of the methods above, with or without a deadline. A generator; each time, it yields a
            list with one :class:`ListScores` per request, made from the documents read so far. The
            last list counts. It ends before ``deadline``, or is closed after its part. A call has
            several requests only without a deadline.
        pair_scores: whether the ``scores`` of ``score_lists`` do not depend on the other documents,
            though its ``order_scores`` do; default False.
        joins_calls: whether calls from several threads share batches, so that the calling threads
            only wait; default False. If true, more calls are made at a time.
        engine: an :class:`~secondpass.types.EngineInfo` for the report, or None while no model is
            loaded. It must not wait for a model that another thread loads.
        takes_instruction: whether the methods above take the keyword ``instruction``; default
            False. It is passed if a call has one, and requests of one call have the same.
        truncated(query, documents): the indices of documents of an earlier call that were longer
            than the model reads, as far as that is known; for the report. It must not wait.
        token_limit: the number of tokens that the configuration lets the model read, for the report
            of longer ones; None, the default, is the model's own limit.
        query_truncated(query, documents): the same, of those beside which the query was longer than
            the model reads.
        passes(query, documents): the number of passes in which a model that reads lists has read
            this one, 1 if it is not known; for the report. It must not wait.
        warm_up(), close(): load the model, release it.
    """

    def score_pairs(self, query: str, documents: list[str], /) -> Collection[float]: ...


@explained()
@unchangeable
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
        order_scores: what the documents are ordered by in place of ``scores``, on the same scale,
            for each that has a score. Then ``scores``, which are reported and compared with
            thresholds, need not depend on the list. None orders by ``scores``.
        known, encoded: number of documents whose encoding was kept, and that were encoded.
        pieces: (start, stop, score) of each part of each document that was scored, in the order of
            the document and without overlap; None for those without. Not of windows.
    """

    scores: Sequence[Any]
    issues: Sequence[Issue] = ()
    original: float | None = None
    spans: Sequence[Span | None] | None = None
    order_scores: Sequence[Any] | None = None
    known: int = 0
    encoded: int = 0
    pieces: Sequence[Sequence[Piece] | None] | None = None


@dataclass(slots=True)
class RawScores:
    """What a scorer returned. Only the values are not validated.

    Attributes:
        values: one per text; undefined for texts whose call failed.
        failures: ranges of texts whose call failed, as (start, stop, error).
        troubles: errors in spite of which every text has a score.
        called: whether the scorer was called at all.
        issues, original, spans, order_scores, known, encoded, pieces: see :class:`ListScores`.
    """

    values: list[Any]
    failures: list[tuple[int, int, MethodError]] = field(default_factory=list)
    troubles: list[MethodError] = field(default_factory=list)
    called: bool = True
    issues: Sequence[Issue] = ()
    original: float | None = None
    spans: Sequence[Span | None] | None = None
    order_scores: Sequence[Any] | None = None
    known: int = 0
    encoded: int = 0
    pieces: Sequence[Sequence[Piece] | None] | None = None


@unchangeable
@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation with a language model."""

    role: Literal["user", "assistant"]
    text: str = field(repr=False)


@unchangeable
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


@explained()
@unchangeable
@dataclass(frozen=True, slots=True)
class Completion:
    """The reply of a service.

    Attributes:
        text: the reply; may be empty.
        cut: whether it was truncated at its maximum length.
        input_tokens, output_tokens: cached tokens and those of thinking included; None if the
            server did not report them.
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


@unchangeable
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


@unchangeable
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
        assumed: the value that plans and dry runs use, the input order for example; None if what
            the method asks afterwards depends on the answer: then a plan does not say how many
            questions it asks.
        shortened: whether passages were cut to fit the context window of the model.
        recall: how its answer is stored; None if it cannot be.
        repairs: whether it asks about a part of a question that was refused. It counts as a repair,
            and is not repaired itself.
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
    repairs: bool = False


@unchangeable
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

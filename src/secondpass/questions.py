"""Questions to services: prompts, replies, and the protocols of language models and rerank APIs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from secondpass.errors import MethodError

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")


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
class Recall(Generic[T]):
    """How the answer of a question is stored, and found again in another ranking or process.

    Attributes:
        key: returns all that the value depends on besides the service: plain values, dataclasses of
            them, and objects with a ``cache_key``. Where the request has names that were drawn for
            its documents, it has their places.
        dump: returns a value as JSON values, documents by place; None if it is not worth storing;
            raises TypeError if it cannot be stored.
        load: the reverse; raises an exception if these are not of an answer to the question.
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
        reminder: describes a usable reply, to ask a language model once more; None to not repair.
        shrink: returns the same question with passages of half the length, for a server that found
            it too long; or None if nothing is left to cut.
        estimate: estimated tokens of prompt and reply.
        documents: number of candidates in the question.
        assumed: the value with which a dry run goes on; None to leave the question unanswered.
        recall: how its answer is stored; None if it cannot be.
    """

    request: R
    read: Callable[[Completion], T] = field(repr=False)
    reminder: str | None
    shrink: Callable[[], Question[R, T] | None] = field(repr=False)
    estimate: Estimate
    documents: int
    assumed: T | None = None
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

"""Questions to services: prompts, replies, and the protocols of language models and rerank APIs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        logprobs: for how many alternatives of each token of the reply log probabilities are asked
            for; 0 for none.
        needs_logprobs: whether a reply without them is useless. A server that rejects them is then
            not asked; otherwise it is asked without.
    """

    system: str = field(repr=False)
    turns: tuple[Turn, ...]
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    logprobs: int = 0
    needs_logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """The reply of a service.

    Attributes:
        text: the reply; may be empty.
        cut: whether it was truncated at its maximum length.
        input_tokens, output_tokens: None if the server did not report it.
        logprobs: for each token of the reply, the natural log probabilities (at most 0) of the
            token itself, which comes first, and of its alternatives, by their text. None if the
            server did not report them.
    """

    text: str = field(repr=False)
    cut: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    logprobs: Sequence[Mapping[str, float]] | None = field(default=None, repr=False)


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
    """

    request: R
    read: Callable[[Completion], T] = field(repr=False)
    reminder: str | None
    shrink: Callable[[], Question[R, T] | None] = field(repr=False)
    estimate: Estimate
    documents: int
    assumed: T | None = None


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

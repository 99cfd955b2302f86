"""Observers: notified of every ranking, method, request and scorer call of this process.

Without an observer, the only cost is a check of an empty tuple.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from secondpass.concurrency.callbacks import check_callback
from secondpass.errors import InputError, MethodError, reraise_exit, with_article
from secondpass.questions import Completion, Prompt
from secondpass.ranking.candidates import query_key
from secondpass.ranking.diagnostics import log, log_exception
from secondpass.ranking.scoring import member
from secondpass.ranking.trace import Trace
from secondpass.settings import registry
from secondpass.settings.arguments import explained
from secondpass.types import Report

T = TypeVar("T")

Content = Callable[[], Mapping[str, Any]]
"""Returns the texts of an operation; called only if an observer wants them."""


@dataclass(slots=True, eq=False, kw_only=True)
class Operation:
    """A timed part of a ranking. Holds no text of queries and candidates, and no key.

    Attributes:
        name: of the method or model.
        parents: the operations that it is a part of: none for a ranking; several for a scorer call
            that serves several rankings.
        seconds: how long it took; None until it ends.
        error: why it failed: a code as in reports, ``cancelled``, or the name of an exception's
            class; None if it did not, or has not ended.
    """

    name: str
    parents: tuple[Operation, ...] = ()
    seconds: float | None = None
    error: str | None = None
    _observers: tuple[Registration, ...] = field(default=(), repr=False)
    _started: float = field(default=0.0, repr=False)


@dataclass(slots=True, eq=False, kw_only=True)
class RankingOperation(Operation):
    """One ranking. Its name is that of the reranker's method.

    Attributes:
        candidates: number of candidates.
        top_k: number of items to return; None returns all.
        query: a hash of the query, below 2**64: equal if it differs in case and white space only.
        report: None until it ends, and if it is cancelled.
        trace: scores, statuses and orders of all candidates; None as long as there is no report.
    """

    candidates: int
    top_k: int | None
    query: int
    report: Report | None = None
    trace: Trace | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False, kw_only=True)
class MethodOperation(Operation):
    """A method that judges: that of the reranker, a fallback, or a stage of a cascade.

    Attributes:
        texts: number of texts that it judges.
        scored: number of these that have a score; None until it ends, and if it fails.
    """

    texts: int
    scored: int | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class RequestOperation(Operation):
    """One request to a language model, a rerank API or a server.

    Attributes:
        kind: ``chat`` for a prompt, else ``rerank``.
        provider: such as ``openai`` or ``cohere``; the name of a class if it is not known.
        address: host of the server; None if only the provider's SDK knows it.
        port: of the server; None if only the SDK knows it.
        documents: number of candidates in the question.
        attempt: 1 for the first request of a question.
        after: code of the error of the attempt before; None for the first attempt.
        input_tokens, output_tokens: as reported by the server; None if it reports none.
        units: billed units that are no tokens, as reported; None if the server reports none.
        cut: whether the reply was truncated at its maximum length.
    """

    kind: str
    provider: str
    address: str | None
    port: int | None
    documents: int
    attempt: int
    after: str | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    units: float | None = None
    cut: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class ScoringOperation(Operation):
    """One call of a local scorer.

    Attributes:
        queries: number of requests in the call.
        pairs: number of query-document pairs.
    """

    queries: int
    pairs: int


class Observer(Protocol):
    """Notified when operations start and end. Each of the methods is optional.

    They are called in the thread and the context (:mod:`contextvars`) in which the operation runs,
    from several threads at once, and should return quickly. Exceptions that they raise are logged,
    and have no other effect.
    """

    def start(self, operation: Operation) -> None:
        """The operation starts."""

    def end(self, operation: Operation) -> None:
        """The operation has ended, and will not change again."""

    def content(self, operation: Operation, texts: Mapping[str, Any]) -> None:
        """The texts of an operation: called after :meth:`start`, and before :meth:`end`.

        Define it only to get queries, passages, prompts and replies. The keys are, for a ranking,
        first ``query`` and ``candidates``, then ``ranking``; for a request, first ``request``, then
        ``completion``; for a scorer call, ``requests``: a list of (query, documents) tuples.
        """


class Registration:
    """An observer that is registered until :meth:`close` is called, or the with block ends."""

    def __init__(self, observer: object) -> None:
        self.observer = observer
        self.wants_content = callable(getattr(observer, "content", None))
        self._failed = False

    def close(self) -> None:
        """Unregister the observer: it is not notified of operations that start from now on."""
        global _registered  # noqa: PLW0603
        with _lock:
            _registered = tuple(other for other in _registered if other is not self)

    def call(self, name: str, *arguments: object) -> None:
        """Call a method of the observer, if it has it; log only the first exception."""
        try:
            method = getattr(self.observer, name, None)
            if method is not None:
                method(*arguments)
        except BaseException as error:
            # In another thread, an exit would end the event loop of all rankings.
            if threading.current_thread() is threading.main_thread():
                reraise_exit(error)
            log_exception(error, "an observer")
            if not self._failed:
                self._failed = True
                observer = type(self.observer).__name__
                log("warning", "the observer %s raised %s", observer, type(error).__name__)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


_ERRORS = {"CancelledError": "cancelled", "GeneratorExit": "cancelled", "TimeoutError": "timeout"}

_lock = threading.Lock()
_registered: tuple[Registration, ...] = ()


@explained()
def observe(observer: object) -> Registration:
    """Register an observer of every ranking in this process, until the registration is closed.

    An observer that is registered twice is notified once.

    Args:
        observer: has one or more of the methods of :class:`Observer`.

    Raises:
        InputError: it has none of them, or one that is asynchronous.
    """
    global _registered  # noqa: PLW0603
    kind = type(observer).__name__
    if isinstance(observer, type):
        raise InputError(f"observer: give an instance of {observer.__name__}, not the class")
    methods = {name: getattr(observer, name, None) for name in ("start", "end", "content")}
    if not any(methods.values()):
        raise InputError(
            f"observer: give an object with start, end or content, not {with_article(kind)}"
        )
    for name, method in methods.items():
        check_callback(f"{kind}.{name}", method)
    registration = Registration(observer)
    with _lock:
        _registered = (*_registered, registration)
    return registration


def registrations() -> tuple[Registration, ...]:
    """The open registrations, in the order in which they were made."""
    return _registered


class Running:
    """An operation that lasts as long as the with block. Exceptions set its error, and propagate.

    Attributes:
        operation: the operation; None without an observer.
        content: the texts to offer when it starts; set it again for the texts at its end.
    """

    def __init__(self, operation: Operation | None, content: Content | None = None) -> None:
        self.operation = operation
        self.content = content

    def __enter__(self) -> Self:
        if self.operation is not None:
            start(self.operation)
            self._offer(self.operation)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self.operation is not None:
            self._offer(self.operation)
            end(self.operation, None if error is None else error_of(error))

    def _offer(self, operation: Operation) -> None:
        """Pass the texts to the observers that want them."""
        content, self.content = self.content, None
        interested = [item for item in operation._observers if item.wants_content]
        if content is not None and interested:
            texts = content()
            for registration in interested:
                registration.call("content", operation, texts)

    def answered(self, completion: Completion) -> Completion:
        """Set what the completion reports in the operation of a request, and return it."""
        operation = self.operation
        if isinstance(operation, RequestOperation):
            operation.input_tokens = completion.input_tokens
            operation.output_tokens = completion.output_tokens
            operation.units = completion.units
            operation.cut = completion.cut
            self.content = lambda: {"completion": completion}
        return completion

    def ended(self, outcome: T) -> T:
        """Set the error of the operation, if the outcome is one, and return the outcome."""
        if self.operation is not None and isinstance(outcome, MethodError):
            self.operation.error = outcome.code
        return outcome


_UNOBSERVED = Running(None)


def start(operation: Operation) -> None:
    """Start the clock of an operation and notify the observers, each once."""
    operation._observers = tuple({id(item.observer): item for item in _registered}.values())
    operation._started = time.perf_counter()
    for registration in operation._observers:
        registration.call("start", operation)


def end(operation: Operation, error: str | None = None) -> None:
    """Stop the clock of an operation and notify the observers, in reverse order."""
    operation.seconds = time.perf_counter() - operation._started
    operation.error = operation.error or error
    for registration in reversed(operation._observers):
        registration.call("end", operation)


def error_of(error: BaseException) -> str:
    """The attribute ``error`` of an operation that raised ``error``."""
    if isinstance(error, MethodError):
        return error.code
    name = type(error).__name__
    return _ERRORS.get(name, name)


def query_hash(text: str) -> int:
    """A hash of a query, below 2**64: equal for its repetitions, in every process."""
    digest = blake2b(query_key(text).encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def request(
    operations: Sequence[Operation],
    service: Any,
    content: object,
    documents: int,
    errors: Sequence[MethodError],
) -> Running:
    """The operation of a request about so many documents, after errors of earlier attempts.

    ``operations`` are those that are running in its ranking; none without an observer.
    """
    if not operations:
        return _UNOBSERVED
    address, port = _server(service)
    operation = RequestOperation(
        name=str(member(service, "name", None) or type(service).__name__),
        parents=(operations[-1],),
        kind="chat" if isinstance(content, Prompt) else "rerank",
        provider=_provider(service),
        address=address,
        port=port,
        documents=documents,
        attempt=len(errors) + 1,
        after=errors[-1].code if errors else None,
    )
    return Running(operation, lambda: {"request": content})


def scoring(
    scorer: object, requests: Sequence[tuple[str, list[str]]], parents: tuple[Operation, ...]
) -> Running:
    """The operation of a scorer call with (query, documents) pairs.

    ``parents`` is the running operation of each ranking that it serves; none without an observer.
    """
    if not parents:
        return _UNOBSERVED
    operation = ScoringOperation(
        name=str(member(scorer, "model_name", None) or type(scorer).__name__),
        parents=parents,
        queries=len(requests),
        pairs=sum(len(documents) for _, documents in requests),
    )
    return Running(operation, lambda: {"requests": requests})


def _provider(service: object) -> str:
    """The provider whose API a service uses; the name of its class if that is not known."""
    known = (
        member(service, "provider", None),
        member(service, "api", None),
        registry.name_of("llms", type(service)),
    )
    return next((name for name in known if isinstance(name, str)), type(service).__name__)


def _server(service: object) -> tuple[str | None, int | None]:
    """Host and port of the server that a service calls; None if not known."""
    from urllib.parse import urlsplit

    url = member(service, "base_url", None) or member(service, "url", None)
    if not isinstance(url, str):
        return None, None
    try:
        parts = urlsplit(url)
        if parts.hostname is None:
            return None, None
        return parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None, None

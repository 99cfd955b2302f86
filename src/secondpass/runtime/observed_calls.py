"""Reports requests to services and scorer calls to the observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from secondpass.errors import MethodError
from secondpass.questions import Completion, Prompt
from secondpass.runtime.commands import ScorerCall
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.observers import RequestOperation, Running, ScoringOperation, observed
from secondpass.scoring import member
from secondpass.settings import registry

T = TypeVar("T")


class RunningRequest(Running[RequestOperation]):
    """A request that is being sent."""

    def answered(self, completion: Completion) -> Completion:
        """Set what the completion reports in the operation, and return the completion."""
        operation = self.operation
        operation.input_tokens = completion.input_tokens
        operation.output_tokens = completion.output_tokens
        operation.units = completion.units
        operation.cut = completion.cut
        self.content = lambda: {"completion": completion}
        return completion


class RunningCall(Running[ScoringOperation]):
    """A scorer call that is being made."""

    def ended(self, outcome: T) -> T:
        """Set the error of the operation, if the outcome is one, and return the outcome."""
        if isinstance(outcome, MethodError):
            self.operation.error = outcome.code
        return outcome


class Unobserved:
    """Replaces both while there is no observer."""

    def __enter__(self) -> Unobserved:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def answered(self, completion: Completion) -> Completion:
        """Return the completion."""
        return completion

    def ended(self, outcome: T) -> T:
        """Return the outcome."""
        return outcome


_UNOBSERVED = Unobserved()


def request(
    ledger: Ledger,
    service: Any,
    content: object,
    documents: int,
    errors: Sequence[MethodError],
) -> RunningRequest | Unobserved:
    """The operation of a request.

    Args:
        ledger: of the ranking.
        service: that gets the request.
        content: of the request.
        documents: number of candidates in it.
        errors: of earlier attempts.
    """
    if not ledger.operations:
        return _UNOBSERVED
    address, port = _server(service)
    operation = RequestOperation(
        name=str(member(service, "name", None) or type(service).__name__),
        parents=(ledger.operations[-1],),
        kind="chat" if isinstance(content, Prompt) else "rerank",
        provider=_provider(service),
        address=address,
        port=port,
        documents=documents,
        attempt=len(errors) + 1,
        after=errors[-1].code if errors else None,
    )
    return RunningRequest(operation, lambda: {"request": content})


def scoring(call: ScorerCall) -> RunningCall | Unobserved:
    """The operation of a scorer call."""
    if not observed():
        return _UNOBSERVED
    parents = tuple(ledger.operations[-1] for ledger in call.ledgers if ledger.operations)
    if not parents:
        return _UNOBSERVED
    scorer = call.scorer
    requests = call.requests
    operation = ScoringOperation(
        name=str(member(scorer, "model_name", None) or type(scorer).__name__),
        parents=parents,
        queries=len(requests),
        pairs=sum(len(documents) for _, documents in requests),
    )
    return RunningCall(operation, lambda: {"requests": requests})


def _provider(service: object) -> str:
    """The provider whose API a service uses; the name of its class if that is not known."""
    known = (
        member(service, "provider", None),
        member(service, "api", None),
        registry.name_of("llms", service),
    )
    names = [name for name in known if isinstance(name, str)]
    return names[0] if names else type(service).__name__


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

"""Steps that work, and parts that others are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fake_provider.logprobs import with_logprobs
from fake_provider.replies import by_number, envelope, good_tokens, rerank_envelope, rerank_rows
from fake_provider.requests import Grade, Pause, Request, Step, Wire


def good(grade: Grade = by_number, after: float = 0.0) -> Step:
    """A good reply, ``after`` some seconds."""

    def step(request: Request) -> Iterator[Wire]:
        if after:
            yield Pause(after)
        yield http(200, _good_reply(request, grade))

    return step


def http(
    code: int,
    body: Any = b"",
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
) -> bytes:
    """A whole response; ``body`` is bytes, or made JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Content-Type": kind, "Content-Length": str(len(raw)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {code} Said\r\n{head}\r\n".encode("latin-1") + raw


def raw(*parts: Wire) -> Step:
    """These parts, whatever was asked."""
    return lambda _request: iter(parts)


def answered(make: Callable[[Request], Any]) -> Step:
    """A response of status 200 with what a function makes of the request."""
    return lambda request: [http(200, make(request))]


def _good_reply(request: Request, grade: Grade = by_number) -> Any:
    if request.rerank:
        return rerank_envelope(request, rerank_rows(request, grade))
    tokens = good_tokens(request, grade)
    return with_logprobs(envelope(request, next(iter(tokens[0]))), request, tokens)


def good_bytes(request: Request) -> bytes:
    """The JSON of a whole good reply, envelope included."""
    return json.dumps(_good_reply(request)).encode()


def good_but(change: Callable[[Request, bytes], Iterable[Wire]]) -> Step:
    """What a function makes of the request and the bytes of a good reply's body."""
    return lambda request: change(request, good_bytes(request))


def by_api(**steps: Step) -> Step:
    """Another step for each dialect; ``other`` for the rest, ``compatible`` before ``openai``."""

    def step(request: Request) -> Iterable[Wire]:
        chosen = steps.get(request.flavour) or steps.get(request.api) or steps["other"]
        return chosen(request)

    return step


def refusing(
    applies: Callable[[Request], bool], error: Step, otherwise: Step | None = None
) -> Step:
    """An error for the requests that a function says yes to, and a good reply to the others."""

    def step(request: Request) -> Iterable[Wire]:
        return (error if applies(request) else otherwise or good())(request)

    return step


def changed(change: Callable[[Any], object]) -> Step:
    """A good reply, after a function has changed its envelope in place."""

    def make(request: Request) -> Any:
        reply = _good_reply(request)
        change(reply)
        return reply

    return answered(make)


def body(value: Any) -> Step:
    """A response of status 200 with this body."""
    return raw(http(200, value))

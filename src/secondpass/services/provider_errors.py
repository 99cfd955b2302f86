"""What an exception of a provider's SDK, or the response within it, means.

All SDKs raise something with a status, headers and a body when the server answered, and something
of httpx's when it did not. What they raise holds the key and the prompt, so nothing of it goes on
but the status, our own words, and what :mod:`secondpass.services.diagnosis` lets pass.
"""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from secondpass.errors import LLMError
from secondpass.services.diagnosis import codes, words
from secondpass.services.echoes import Sent
from secondpass.services.http import (
    RedirectedError,
    ResponseTooLongError,
    UnreadableResponseError,
)

_MOST = 20_000  # characters of a body that are looked at

_KNOWN = {
    401: ("authentication", "the key was refused"),
    402: ("payment", "payment is required"),
    403: ("authentication", "access was refused"),
    404: ("not_found", "there is no such model or address"),
    408: ("timeout", "the server took too long"),
    409: ("conflict", "the server was busy with the same"),
    413: ("too_long", "the prompt is too long"),
    429: ("rate_limited", "too many requests"),
}
_RETRYABLE = frozenset({408, 409, 429})

_NO_CREDIT = re.compile(
    r"insufficient_quota|billing_hard_limit|credit balance|insufficient (funds|balance|credits)",
    re.I,
)
_NO_KEY = re.compile(r"api[ _-]?key|authentication_error|unauthorized", re.I)
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|prompt (is )?too long|too many tokens"
    r"|exceed\w{0,9} (the )?(available |maximum |max )?(context|(number of )?(input )?tokens)"
    r"|input (is )?too long|input token count|request_too_large|too large for|max_model_len"
    r"|string_above_max_length|reduce the length|max allowed tokens|lower the number of tokens",
    re.I,
)
_FILTERED = re.compile(
    r"content[ _-]?(filter|policy|management)|responsible.?ai|safety|moderation|prohibited|flagged",
    re.I,
)
_FORMAT = re.compile(
    r"response_?format|json|schema|structured|output_?config|output_?format|grammar"
    r"|response_?mime_?type|guided|constrained|tool_choice",
    re.I,
)


_REDIRECTED = "the server points elsewhere, which is not followed"
_FINAL: tuple[tuple[type[BaseException], str, str], ...] = (
    (RedirectedError, "redirected", _REDIRECTED),
    (ResponseTooLongError, "response_too_long", "the response is longer than any reply"),
    (UnreadableResponseError, "bad_response", "the response could not be read"),
    (ssl.SSLError, "connection", "no secure connection could be made"),
)
"""What is raised between us and a server, and would be again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response that is no answer.

    Attributes:
        status: of HTTP.
        text: the beginning of the body, to be looked at and never shown.
        parameter: the request's parameter that the server blames, if it names one.
        retry_after: seconds, or None.
        words: those of the server that may be shown.
    """

    status: int
    text: str
    parameter: str | None
    retry_after: float | None
    words: str = ""

    @property
    def source(self) -> str:
        """The status and the server's words, as messages end."""
        said = f"; the server says: {self.words}" if self.words else ""
        return f"(status {self.status}{said})"

    @property
    def too_long(self) -> bool:
        """Whether the prompt has too many tokens."""
        if self.status == 500:  # of llama.cpp
            return "too large to process" in self.text
        return self.status == 413 or (self.adaptable and bool(_TOO_LONG.search(self.text)))

    @property
    def adaptable(self) -> bool:
        """Whether the request itself is blamed, so that another form of it may pass."""
        return self.status in {400, 422} and not (
            _NO_CREDIT.search(self.text) or _NO_KEY.search(self.text)
        )

    @property
    def of_the_format(self) -> bool:
        """Whether the form of reply that was asked for is not to be had."""
        return self.adaptable and bool(_FORMAT.search(f"{self.parameter} {self.text}"))

    def blames(self, name: str) -> bool:
        """Whether the parameter of this name is not to be had."""
        if not self.adaptable:
            return False
        if self.parameter is not None:
            return self.parameter.rpartition(".")[2] == name
        return re.search(rf"\b{re.escape(name)}\b", self.text) is not None

    def error(self) -> LLMError:
        """The same for the driver."""
        status, text = self.status, self.text
        broke = status in {400, 429} and bool(_NO_CREDIT.search(text))
        # Google says so of passing limits too, but then adds how long they last.
        unspecific = status == 429 and "check your plan and billing" in text
        if broke or (unspecific and self.retry_after is None):
            return LLMError(f"the account has no credit left {self.source}", "quota")
        if status == 400 and _NO_KEY.search(text):
            return LLMError(f"the key was refused {self.source}", "authentication")
        if self.too_long:
            told = f"the prompt is too long for the model {self.source}"
            return LLMError(told, "too_long", too_long=True)
        if status in {400, 422} and _FILTERED.search(text):
            return LLMError(f"a content filter refused it {self.source}", "content_filter")
        code, told = _KNOWN.get(status, ("", ""))
        if not code:
            if status >= 500:
                code, told = "server_error", "the server failed"
            elif status < 400:
                code, told = "redirected", _REDIRECTED
            else:
                code, told = "bad_request", "the server refused the request"
        return LLMError(
            f"{told} {self.source}",
            code,
            retryable=status in _RETRYABLE or status >= 500,
            retry_after=self.retry_after,
        )


def refusal_of(error: Exception, sent: Sequence[str] | Sent = ()) -> Refusal | None:
    """The response that an SDK's exception stands for; None where there was none.

    Args:
        error: what the SDK raised.
        sent: the texts of the request. Servers like to repeat them, and what a passage says must
            not decide what the error means. Words of the server's are passed on only if this is a
            :class:`~secondpass.services.echoes.Sent`, which knows the key too.
    """
    status = getattr(error, "status_code", None)
    if type(status) is not int:
        status = getattr(error, "code", None)
    if type(status) is not int or not 300 <= status < 600:
        return None
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        headers = {}
    body = getattr(error, "body", None) or getattr(error, "details", None)
    try:
        text = body if isinstance(body, str) else _flat(body)
    except (TypeError, ValueError, RecursionError):
        text = ""
    if not body:
        text = str(getattr(error, "message", ""))
    known = sent if isinstance(sent, Sent) else Sent(sent)
    # A server's own codes stand in members of their own, which no passage gets into.
    text = f"{known.removed_from(text[:_MOST])}\n{codes(body)}"[:_MOST]
    parameter = body.get("param") if isinstance(body, Mapping) else None
    return Refusal(
        status,
        text,
        parameter if isinstance(parameter, str) and parameter else None,
        retry_after(headers, text),
        words(body, sent) if isinstance(sent, Sent) else "",
    )


def _flat(body: Any) -> str:
    """A body as text, but for the request that some servers put into their error."""
    if isinstance(body, Mapping):
        body = {key: value for key, value in body.items() if key not in _REPEATED}
        if isinstance(detail := body.get("detail"), list):
            # FastAPI's: each entry holds the input that it complains of.
            body["detail"] = [
                {key: value for key, value in one.items() if key not in _REPEATED}
                if isinstance(one, Mapping)
                else one
                for one in detail
            ]
    return _leaves(body)


def _leaves(value: Any) -> str:
    """Names and values of a body, strings as they are: quoted, they would hide what they repeat."""
    if isinstance(value, Mapping):
        return "\n".join(f'"{key}": {_leaves(item)}' for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(map(_leaves, value))
    return f'"{value}"' if isinstance(value, str) else str(value)


_REPEATED = frozenset({"input", "body", "messages", "prompt", "request"})


def error_of(error: Exception) -> LLMError:
    """An exception without a response, for the driver."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    for kind, code, told in _FINAL:
        if any(isinstance(one, kind) for one in chain):
            return LLMError(told, code)
    kinds = {kind.__name__ for one in chain for kind in type(one).__mro__}
    if kinds & {"TimeoutException", "APITimeoutError", "TimeoutError"}:
        return LLMError("the server took too long", "timeout", retryable=True)
    if kinds & {"DecodingError", "TooManyRedirects", "UnsupportedProtocol", "InvalidURL"}:
        return LLMError("the response could not be read", "bad_response")
    # Other errors of the operating system (no such file, no permission) do not pass by themselves.
    if kinds & {"TransportError", "ConnectionError", "gaierror"} or type(chain[-1]) is OSError:
        return LLMError("the connection failed", "connection", retryable=True)
    return LLMError(f"the response is not one of this API ({type(error).__name__})", "bad_response")


def translated(error: Exception) -> LLMError:
    """What any exception means: of an SDK, of what was built around one, or of a function."""
    refusal = refusal_of(error)
    if refusal is not None:
        return refusal.error()
    told = error_of(error)
    if told.code == "bad_response":
        return LLMError(f"the model raised {type(error).__name__}", "llm_raised")
    return told


def retry_after(headers: Mapping[str, str], text: str = "") -> float | None:
    """Seconds that the server wants to be left alone; None where it says nothing usable."""
    if (number := _seconds(headers.get("retry-after-ms"))) is not None:
        return number / 1000
    told = headers.get("retry-after")
    if (number := _seconds(told)) is not None:
        return number
    if told:
        try:
            return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
        except (TypeError, ValueError, OverflowError):
            return None
    # Google puts it into the body.
    found = re.search(r'"retryDelay":\s*"(\d{1,9}(?:\.\d{1,9})?)s"', text)
    return float(found[1]) if found else None


def _seconds(told: Any) -> float | None:
    try:
        number = float(told)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None

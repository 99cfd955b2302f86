"""Converts exceptions of provider SDKs, and error responses, to LLMError.

All SDKs raise an exception with a status, headers and a body if the server answered, and one of
httpx otherwise. These exceptions hold the key and the prompt, so only the status, our own words and
what :mod:`secondpass.services.diagnosis` allows are passed on.
"""

from __future__ import annotations

import math
import os
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from secondpass.errors import LLMError, causes
from secondpass.services.diagnosis import Sent, codes, words
from secondpass.services.http import RedirectedError, ResponseTooLongError, UnreadableResponseError
from secondpass.services.network import as_text, certificates, proxy_for
from secondpass.services.throttle import LONGEST, reset_seconds
from secondpass.settings.secrets import bare

_MAX_TEXT = 20_000  # characters of a body that are searched

_REDIRECTED = "redirects are not followed"
_MESSAGES = {
    401: ("authentication", "authentication failed"),
    402: ("payment", "payment required"),
    403: ("authentication", "permission denied"),
    404: ("not_found", "model or address not found"),
    407: ("connection", "the proxy demands a user and a password"),
    408: ("timeout", "request timed out"),
    409: ("conflict", "conflict with another request"),
    413: ("too_long", "prompt too long"),
    429: ("rate_limited", "rate limit exceeded"),
    501: ("bad_request", "not supported by this server or model"),
}
_MESSAGES_BY_CLASS = {
    3: ("redirected", _REDIRECTED),
    4: ("bad_request", "bad request"),
    5: ("server_error", "server error"),
}
_RETRYABLE = frozenset({"timeout", "conflict", "rate_limited", "server_error"})
_NO_CREDIT = re.compile(
    r"insufficient_quota|billing_hard_limit|credit balance|insufficient (funds|balance|credits)",
    re.I,
)
_BAD_KEY = re.compile(r"api[ _-]?key|authentication_error|unauthorized", re.I)
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|prompt (is )?too long|too many tokens"
    r"|exceed\w{0,9} (the )?(available |maximum |max )?(context|(number of )?(input )?tokens)"
    r"|input (is )?too long|input token count|request_too_large|too large for|max_model_len"
    r"|string_(above_max_length|too_long)|reduce the length|max allowed tokens"
    r"|lower the number of tokens|document index:? ?\d+ is invalid.{0,30} larger than"
    r"|(less|fewer) than \d+ tokens",
    re.I,
)
_FILTERED = re.compile(
    r"content[ _-]?(filter|policy|management)|responsible.?ai|safety|moderation|prohibited|flagged",
    re.I,
)
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"(\d{1,9}(?:\.\d{1,9})?)s"', re.I)
"""Google's, in the body."""
_LOGPROBS = re.compile(r"log[ _-]?prob", re.I)
_FORMAT = re.compile(
    r"(response|output)[ _-]?(format|config)|json|schema|structured|grammar"
    r"|response[ _-]?mime[ _-]?type|guided|constrained|tool_choice",
    re.I,
)

_FINAL: tuple[tuple[type[BaseException], str, str], ...] = (
    (RedirectedError, "redirected", _REDIRECTED),
    (ResponseTooLongError, "response_too_long", "response too long"),
    (UnreadableResponseError, "bad_response", "the response could not be decoded"),
    (ssl.SSLError, "connection", "TLS connection failed"),
)
"""Exceptions that another attempt would raise again."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """A response with an error status."""

    status: int
    text: str
    """The beginning of the body in lower case, without what was sent; for matching, never shown."""
    parameter: str | None  # the request parameter that the server blames, if it names one
    retry_after: float | None  # seconds, or None
    words: str = ""  # the server's own words that may be shown

    @property
    def source(self) -> str:
        """The status and the server's words, for the end of messages."""
        words = f"; the server says: {self.words}" if self.words else ""
        return f"(status {self.status}{words})"

    @property
    def too_long(self) -> bool:
        """Whether the prompt has too many tokens."""
        if self.status == 500:  # llama.cpp
            return "too large to process" in self.text
        return self.status == 413 or (self.blames_request and self.names_length)

    @property
    def names_length(self) -> bool:
        """Whether the server says that a text has too many tokens or characters."""
        return bool(_TOO_LONG.search(self.text))

    @property
    def blames_request(self) -> bool:
        """Whether a different form of the request may be accepted."""
        return self.status in {400, 422} and not (
            _NO_CREDIT.search(self.text) or _BAD_KEY.search(self.text)
        )

    @property
    def blames_format(self) -> bool:
        """Whether the server does not support the reply format of the request."""
        return self.blames_request and bool(_FORMAT.search(f"{self.parameter} {self.text}"))

    @property
    def blames_logprobs(self) -> bool:
        """Whether the server rejects log probabilities, or their number of alternatives."""
        # OpenAI sends 403 for models that do not have them.
        if not self.blames_request and self.status != 403:
            return False
        return bool(_LOGPROBS.search(self.text if self.parameter is None else self.parameter))

    def blames(self, name: str) -> bool:
        """Whether the server does not support the parameter of this name."""
        if not self.blames_request:
            return False
        if self.parameter is not None:
            return self.parameter.rpartition(".")[2] == name
        return re.search(rf"\b{re.escape(name)}\b", self.text, re.I) is not None

    def error(self) -> LLMError:
        """What it means for the ranking."""
        code, message = self._classified()
        return LLMError(
            f"{message} {self.source}",
            code,
            retryable=code in _RETRYABLE,
            retry_after=self.retry_after,
            too_long=code == "too_long",
        )

    def _classified(self) -> tuple[str, str]:
        """An error code, and a message."""
        status, text = self.status, self.text
        no_credit = status in {400, 429} and bool(_NO_CREDIT.search(text))
        # Google sends this for rate limits too, but then with a delay.
        ambiguous = status == 429 and "check your plan and billing" in text
        if no_credit or (ambiguous and self.retry_after is None):
            return "quota", "no credit left"
        if status == 400 and _BAD_KEY.search(text):
            return _MESSAGES[401]
        if self.too_long:
            return _MESSAGES[413]
        if status in {400, 422} and _FILTERED.search(text):
            return "content_filter", "blocked by a content filter"
        return _MESSAGES.get(status) or _MESSAGES_BY_CLASS[status // 100]


def error_response(error: Exception, sent: Sequence[str] | Sent = ()) -> ErrorResponse | None:
    """The response in an SDK's exception; None if it has none.

    What was sent is removed from the body, because servers repeat it and a passage must not decide
    what an error means. The server's words are passed on only with a
    :class:`~secondpass.services.diagnosis.Sent`, which knows the key too.
    """
    status = getattr(error, "status_code", None)
    if type(status) is not int:
        status = getattr(error, "code", None)  # Google's
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
    removable = sent if isinstance(sent, Sent) else Sent(sent)
    # Codes are in separate fields, which never contain a passage.
    text = f"{removable.removed_from(text[:_MAX_TEXT])}\n{codes(body)}"[:_MAX_TEXT]
    parameter = body.get("param") if isinstance(body, Mapping) else None
    return ErrorResponse(
        status,
        text,
        parameter if isinstance(parameter, str) and parameter else None,
        retry_after(headers, text),
        words(body, sent) if isinstance(sent, Sent) else "",
    )


_REPEATED = frozenset({"input", "body", "messages", "prompt", "request"})
"""Fields in which servers repeat the request."""


def _flat(body: Any) -> str:
    """A body as text, without fields that repeat the request."""
    body = _without_repeated(body)
    if isinstance(body, Mapping) and isinstance(detail := body.get("detail"), list):  # FastAPI
        body = {**body, "detail": [_without_repeated(item) for item in detail]}
    return _leaves(body)


def _without_repeated(value: Any) -> Any:
    """An object without the members in which servers repeat the request; any other value as is."""
    if not isinstance(value, Mapping):
        return value
    return {key: item for key, item in value.items() if key not in _REPEATED}


def _leaves(value: Any) -> str:
    """Names and values of a body. Strings are not escaped, which would hide repeated texts."""
    if isinstance(value, Mapping):
        return "\n".join(f'"{key}": {_leaves(item)}' for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(map(_leaves, value))
    return f'"{value}"' if isinstance(value, str) else str(value)


def transport_error(error: Exception, url: str = "") -> LLMError:
    """The LLMError for an exception without a response; ``url`` is the address of the request."""
    chain = [*causes(error)]
    for kind, code, message in _FINAL:
        if any(isinstance(link, kind) for link in chain):
            return LLMError(message + _untrusted(chain), code)
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    if names & {"TimeoutException", "APITimeoutError", "TimeoutError"}:
        return LLMError("request timed out", "timeout", retryable=True)
    if names & {"DecodingError", "TooManyRedirects", "UnsupportedProtocol", "InvalidURL"}:
        return LLMError("the response could not be decoded", "bad_response")
    # Other operating system errors (file not found, no permission) are permanent.
    if names & {"TransportError", "ConnectionError", "gaierror"} or type(chain[-1]) is OSError:
        return _connection_error(chain, names, url)
    return LLMError(f"unexpected response ({type(error).__name__})", "bad_response")


def _connection_error(chain: Sequence[BaseException], names: Set[str], url: str) -> LLMError:
    """The error of a connection that failed: to the server, or to the proxy."""
    if "ProxyError" in names:
        starts = (re.match(r"\d{3}\b", str(link)) for link in chain)
        status = next((match[0] for match in starts if match), None)
        if status is None:
            return LLMError("the proxy refused to connect", "connection", retryable=True)
        message = f"the proxy refused to connect (status {status})"
        return LLMError(message, "connection", retryable=not status.startswith("4"))
    unreachable = any(
        type(link) is OSError or isinstance(link, ConnectionRefusedError | socket.gaierror)
        for link in chain
    )
    is_proxy = unreachable and "ConnectError" in names and proxy_for(url) is not None
    message = "the proxy cannot be reached" if is_proxy else "connection failed"
    if not is_proxy and _is_refused(chain, names) and (origin := _origin(url)):
        message = f"no server answers at {origin}; start it, or set `base_url`"
    return LLMError(message, "connection", retryable=True)


def _is_refused(chain: Sequence[BaseException], names: Set[str]) -> bool:
    """Whether nothing listens at an address, which exists."""
    if any(isinstance(link, socket.gaierror) for link in chain):
        return False
    # Several addresses of a name were tried, so that the error is none of them.
    several = "ConnectError" in names and type(chain[-1]) is OSError
    return several or any(isinstance(link, ConnectionRefusedError) for link in chain)


def _origin(url: str) -> str:
    """Scheme, host and port of an address; empty if it is invalid."""
    scheme, _, rest = bare(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if rest else ""


def _untrusted(chain: Sequence[BaseException]) -> str:
    """Why a certificate was not accepted, for the end of a message; empty for other errors."""
    error = next((link for link in chain if isinstance(link, ssl.SSLCertVerificationError)), None)
    if error is None:
        return ""
    reason = getattr(error, "verify_message", None) or "the certificate is not accepted"
    return f": {'; '.join(filter(None, [reason, as_text(certificates())]))}"


def to_llm_error(error: Exception) -> LLMError:
    """The LLMError for any exception: of an SDK, of a wrapper around one, or of a function."""
    response = error_response(error)
    if response is not None:
        return response.error()
    converted = transport_error(error)
    if converted.code == "bad_response":
        message = f"the model raised {type(error).__name__}"
        message += unset_key(error)
        return LLMError(message, "llm_raised")
    return converted


_LONGEST_TEXT = 10_000
_KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|TOKEN)\b")


def unset_key(error: BaseException) -> str:
    """``; …`` if an exception names the variable of a key that is not set; else empty.

    Nothing else of its text is shown, because that may hold a key or a passage.
    """
    for link in causes(error):
        try:
            names = _KEY_VARIABLE.findall(str(link)[:_LONGEST_TEXT])
        except Exception:  # a foreign __str__ may raise anything
            continue
        if name := next((name for name in names if not os.environ.get(name)), None):
            return f"; it names the variable {name}, which is not set"
    return ""


def retry_after(headers: Mapping[str, str], text: str = "") -> float | None:
    """Seconds to wait before the next attempt; None if the server states none."""
    if (number := _seconds(headers.get("retry-after-ms"))) is not None:
        return number / 1000
    value = headers.get("retry-after")
    if (number := _seconds(value)) is not None:
        return number
    if value:
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except (TypeError, ValueError, OverflowError):
            return None
    # Until all is left again; what one request needs may be there long before.
    if (seconds := reset_seconds(headers)) is not None and seconds <= LONGEST:
        return seconds
    match = _RETRY_DELAY.search(text)
    return float(match[1]) if match else None


def _seconds(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None

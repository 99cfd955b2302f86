"""Base class of all clients of services: key, connection, and a pause after a rejected key."""

from __future__ import annotations

import importlib
import os
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from secondpass.attributes import unchangeable
from secondpass.concurrency.lazy import require
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.portal import Portal, portal
from secondpass.concurrency.threads import in_thread, in_thread_of
from secondpass.errors import ConfigurationError, LLMError, SecondPassError, printable
from secondpass.questions import Completion
from secondpass.services.diagnosis import Sent, address, strings_in, words_in_answer
from secondpass.services.http import RECEIVED
from secondpass.services.network import environment_text, proxy_for, sentence, split
from secondpass.services.provider_errors import ErrorResponse, error_response, transport_error
from secondpass.settings import (
    OptionalVariables,
    Secret,
    Variables,
    parameters_of,
    variable,
    variables,
)
from secondpass.settings.secrets import bare, private_parts

R = TypeVar("R")

_CIRCUIT_SECONDS = 60.0  # seconds in which a rejected key is not tried again
_CLOSING_SECONDS = 5.0
_NOT_IN_KEY = frozenset({"api_key", "api_key_env", "timeout", "prices"})
"""Settings that answers do not depend on."""
NO_KEY = "none"
"""The key for servers that need none. SDKs require a value."""


@unchangeable
@dataclass(frozen=True, slots=True)
class Connection:
    """A client of an SDK or of httpx, and how to close it."""

    client: Any
    close: Callable[[], Coroutine[Any, Any, None]]


class _Opened(NamedTuple):
    """An open connection, its key, and the portal in which it was opened."""

    portal: Portal
    key: Secret
    connection: Connection


class _Refused(NamedTuple):
    """A key that the service has refused, and when."""

    key: Secret
    at: float  # a value of time.monotonic()


class Client(Generic[R]):
    """Answers requests of type R by calling a service.

    After a rejected key, no request is sent for a minute unless the key changes. Redirects are not
    followed. Safe for use from many threads and event loops.

    Subclasses set ``package``, ``extra`` and ``key_variables``, keep ``model``, ``base_url``,
    ``api_key``, ``api_key_env`` and ``timeout`` as attributes, and implement ``_connect``,
    ``_answer`` and ``_texts``. ``options``, if present, are sent with each request.
    """

    package: str
    """The module that is imported to call the service."""
    extra: str
    key_variables: tuple[str, ...]
    url: str = ""
    """The service's own base URL; empty if the SDK knows it."""
    url_variables: tuple[str, ...] = ()
    """Environment variables from which the SDK reads another base URL."""

    model: str | None
    base_url: str | None
    api_key: Secret | None
    api_key_env: Variables
    timeout: float
    options: Mapping[str, Any] | None = None

    def _prepare(self) -> None:
        """Check the common settings and create the client's state."""
        if self.api_key is not None and self.api_key_env is not None:
            raise ConfigurationError("api_key, api_key_env: give one of them")
        if self.base_url is not None:
            check_url(self.base_url, "base_url")
        self._lock = fork_lock()
        self._opened: _Opened | None = None
        self._refused: _Refused | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None

    @property
    def name(self) -> str:
        """The model, for reports."""
        return self.model or type(self).__name__

    @property
    def origin(self) -> str:
        """Address, model and source of the key, for the end of messages.

        Empty if a key is needed and missing; a server without keys has "no key" as its source.
        """
        try:
            return self._origin(bare(self._url), self._key())
        except LLMError:
            return ""

    @property
    def throttle_identity(self) -> int | None:
        """A number that stands for address, model and key in this process; None without the key.

        Objects with the same number share the rate of their requests.
        """
        try:
            return hash((bare(self._url), self.name, self._key().reveal()))
        except LLMError:
            return None

    @property
    def cache_key(self) -> Mapping[str, Any]:
        """The settings that an answer may depend on, and the address if the environment has it."""
        cls: type = type(self)
        key = {name: getattr(self, name) for name in parameters_of(cls) if name not in _NOT_IN_KEY}
        if self.base_url is None:
            key["base_url"] = [os.environ.get(name) for name in self.url_variables]
        return key

    @property
    def _url(self) -> str:
        """The address that is called; empty if only the SDK knows it."""
        return self.base_url or self.url

    async def complete(self, request: R, /) -> Completion:
        """Answer the request, calling the service once.

        Raises:
            LLMError: there is no answer.
            MissingExtraError: the package is not installed.
        """
        return await portal().call(lambda: self._complete(request))

    def check_installed(self) -> None:
        """Raise MissingExtraError if the package is not installed; it is not imported."""
        require([self.package], self.extra, f"the model {self.name!r}")

    def warm_up(self) -> None:
        """Import the package, which takes about a second."""
        self.check_installed()
        importlib.import_module(self.package)

    def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        with self._lock:
            opened, self._opened = self._opened, None
            if self._finalizer is not None:
                self._finalizer.detach()
        if opened is not None and opened.portal is portal():
            opened.portal.run(opened.connection.close, _CLOSING_SECONDS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # ------------------------------------------------------------------ for subclasses

    def _connect(self, key: str) -> Connection:
        """A new connection, with the SDK's retries disabled."""
        raise NotImplementedError

    async def _answer(self, client: Any, request: R, sent: Sent) -> Completion:
        """Call the service once. An exception other than LLMError is converted to one.

        What was ``sent``, texts and keys, must not appear in errors.
        """
        raise NotImplementedError

    def _texts(self, request: R) -> Sequence[str]:
        """The untrusted texts in a request; servers may repeat them in errors."""
        raise NotImplementedError

    # ------------------------------------------------------------------ requests

    async def _complete(self, request: R) -> Completion:
        key = self._key()
        if self._refused is not None and self._refused.key == key:
            if time.monotonic() - self._refused.at < _CIRCUIT_SECONDS:
                message = "not sent: the key was refused less than a minute ago"
                origin = self._origin(bare(self._url), key)
                raise LLMError(f"{message} {origin}", "circuit_open", sent=False)
            self._refused = None
        connection = self._open(key)
        if connection is None:
            connection = await in_thread_of(self, lambda: self._connected(key))
        sent = self._sent_with(key, request)
        received = bytearray()
        RECEIVED.set(received)  # this is a task of its own
        foreign: Exception | None = None
        try:
            return await self._answer(connection.client, request, sent)
        except LLMError as caught:
            error, url = caught, bare(self._url)
        except Exception as caught:
            foreign = caught
        # Outside the except clause: a foreign exception holds the key and the prompt.
        if foreign is not None:
            response = await self._error_response(foreign, sent)
            url = address(foreign, self._url)
            error = transport_error(foreign, url) if response is None else response.error()
            del foreign
            # By the status alone: the text of a 400 may be that of a passage.
            if response is not None and response.status in {401, 403}:
                self._refused = _Refused(key, time.monotonic())
        message = error.message
        if error.code == "bad_response":
            answer = received.decode("utf-8", "replace")
            message += await in_thread(lambda: words_in_answer(answer, sent))
        raise error.with_message(f"{message} {self._origin(url, key)}")

    async def _error_response(self, error: Exception, sent: Sent) -> ErrorResponse | None:
        """:func:`error_response` in a thread: comparing megabytes takes seconds."""
        return await in_thread(lambda: error_response(error, sent))

    def _sent_with(self, key: Secret, request: R) -> Sent:
        """What must not appear in errors: texts, options, and the key."""
        return Sent([*self._texts(request), *strings_in([self.options])], self._secrets(key))

    def _secrets(self, key: Secret) -> list[str]:
        """The key, and the parts of the address that may contain one."""
        value = key.reveal()
        return [*([] if value == NO_KEY else [value]), *private_parts(self._url)]

    def _origin(self, url: str, key: Secret) -> str:
        """The end of messages: address, proxy, model and source of the key, in brackets."""
        value = key.reveal()
        if value != NO_KEY and value in url:
            url = ""
        # SDKs know an address that is not configured; it is one of https.
        proxy = proxy_for(url or "https://")
        way = "" if proxy is None else f"through {proxy}"
        key_source = "no key" if value == NO_KEY else f"key of {key.variable or 'api_key'}"
        model = f"model {printable(self.name)}"
        return f"[{', '.join(filter(None, [url, way, model, key_source]))}]"

    def _key(self) -> Secret:
        """The key, or an LLMError."""
        key = self._configured_key()
        if not all(" " <= character <= "~" for character in key.reveal()):
            where = key.variable or "api_key"
            message = f"the key in {where} has a character that HTTP headers do not allow"
            raise LLMError(message, "invalid_key", sent=False)
        return key

    def _configured_key(self) -> Secret:
        if self.api_key is not None:
            return self.api_key
        names = variables(self.api_key_env) or self.key_variables
        for name in names:
            if key := variable(name):
                return Secret(key, name)
        optional = self.api_key_env is None or isinstance(self.api_key_env, OptionalVariables)
        if self.base_url is not None and optional:
            return Secret(NO_KEY)
        message = f"no API key: set the environment variable {' or '.join(names)}"
        raise LLMError(message, "no_key", sent=False)

    def _open(self, key: Secret) -> Connection | None:
        """The open connection, unless it is of another key or process."""
        opened = self._opened
        if opened is not None and opened.portal is portal() and opened.key == key:
            return opened.connection
        return None

    def _connected(self, key: Secret) -> Connection:
        """The connection for a key. Runs in a thread: importing an SDK takes about a second."""
        with self._lock:
            connection = self._open(key)
            if connection is None:
                self.check_installed()
                if self._finalizer is not None:
                    self._finalizer()  # closes the connection of the previous key
                connection = self._new_connection(key)
                self._opened = _Opened(portal(), key, connection)
                # A client that is dropped without close() must not leave connections open.
                self._finalizer = weakref.finalize(self, _close, portal(), connection)
                self._finalizer.atexit = False
            return connection

    def _new_connection(self, key: Secret) -> Connection:
        """That of ``_connect``, or an LLMError with what the client takes from the environment."""
        try:
            return self._connect(key.reveal())
        except SecondPassError:
            raise
        except Exception as caught:
            name, said = type(caught).__name__, sentence(caught)
        # Outside the except clause: a foreign exception holds the key.
        if Sent([], self._secrets(key)).holds_secret(said):
            said = name
        reason = self._address_problem() or "; ".join(filter(None, [said, environment_text()]))
        message = f"the HTTP client cannot be made: {reason} {self._origin(bare(self._url), key)}"
        raise LLMError(message, "no_client", sent=False)

    def _address_problem(self) -> str | None:
        """What is wrong with an address that the SDK reads from the environment."""
        if self.base_url is None:
            for name in filter(os.environ.get, self.url_variables):
                try:
                    check_url(os.environ[name], name)
                except ConfigurationError as error:
                    return str(error)
        return None


def check_url(url: str, setting: str) -> None:
    """Check that an address is one of HTTP, and contains no password."""
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{setting}: must begin with http:// or https://")
    # urlsplit() drops line breaks and tabs.
    if not url.isprintable() or " " in url:
        raise ConfigurationError(f"{setting}: must not contain white space or control characters")
    parts = split(url)
    if parts is None or not parts.hostname or parts.fragment:
        raise ConfigurationError(f"{setting}: is not a valid URL")
    if "@" in parts.netloc:
        raise ConfigurationError(f"{setting}: must not contain a password; use a variable")


def _close(opened: Portal, connection: Connection) -> None:
    if opened.process == os.getpid():  # connections of a forked child belong to its parent
        opened.work(connection.close).start()


def token_count(value: object) -> int | None:
    """A count of tokens in a response; None if it is not a count."""
    return value if type(value) is int and value >= 0 else None

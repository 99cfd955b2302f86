"""What all clients of services share: a key, a connection that lives in the portal, a circuit."""

from __future__ import annotations

import importlib
import os
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from secondpass.concurrency.lazy import ForkLock, require
from secondpass.concurrency.portal import Portal, portal
from secondpass.concurrency.threads import in_thread
from secondpass.effects import Completion
from secondpass.errors import ConfigurationError, LLMError
from secondpass.services.diagnosis import address, bare, private_parts, strings_in
from secondpass.services.echoes import Sent
from secondpass.services.provider_errors import Refusal, error_of, refusal_of
from secondpass.settings import OptionalVariables, Secret, Variables, first_set, variable, variables

R = TypeVar("R")

_CIRCUIT_SECONDS = 60.0
"""How long a key that was refused is not tried again."""
REMEMBERED_SECONDS = 600.0
"""How long is heeded what a server's refusal taught; then it is tried out again."""
_CLOSING_SECONDS = 5.0
NO_KEY = "none"
"""Stands for the key of a server that wants none."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection pool, or what an SDK has around one, and how to close it."""

    client: Any
    close: Callable[[], Coroutine[Any, Any, None]]


class Client(Generic[R]):
    """Answers requests of type R by asking a service.

    After a refused key no request is sent for a minute, unless the key changes. Redirects are not
    followed. May be used from many threads and event loops at once.

    A kind of client sets ``package``, ``extra`` and ``key_variables``, keeps ``model``,
    ``base_url``, ``api_key``, ``api_key_env`` and ``timeout`` as attributes, and has the methods
    ``_connect`` and ``_answer``. ``options``, where it has them, are sent with each request.
    """

    package: str
    """The module that speaks to the service."""
    extra: str
    key_variables: tuple[str, ...]

    model: str | None
    base_url: str | None
    api_key: Secret | None
    api_key_env: Variables
    timeout: float
    options: Mapping[str, Any] | None = None

    def _prepare(self) -> None:
        """Check what all clients have, and make the state that they keep.

        Raises:
            ConfigurationError: two keys, or a base URL that is none.
        """
        if self.api_key is not None and self.api_key_env is not None:
            raise ConfigurationError("api_key, api_key_env: give one of them")
        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            raise ConfigurationError("base_url: must begin with http:// or https://")
        try:
            host = urlsplit(self.base_url or "").netloc
        except ValueError:
            raise ConfigurationError("base_url: is no address") from None
        if "@" in host:
            raise ConfigurationError("base_url: must hold no password; give the key as such")
        self._lock = ForkLock()
        self._client: tuple[Portal, Secret, Connection] | None = None
        self._refused: tuple[Secret, float] | None = None
        self._leave: weakref.finalize[Any, Any] | None = None

    @property
    def name(self) -> str:
        """The model, for reports."""
        return self.model or type(self).__name__

    @property
    def origin(self) -> str:
        """The address where it is known, the model and the key's variable, as messages end."""
        try:
            return self._where(bare(self._url), self._key())
        except LLMError:  # there is no key
            return ""

    @property
    def _url(self) -> str:
        """The address that is asked; empty where the SDK has it."""
        return self.base_url or ""

    async def complete(self, request: R, /) -> Completion:
        """Ask once.

        Raises:
            LLMError: no answer came.
            MissingExtraError: the package that speaks to the service is not installed.
        """
        return await portal().call(lambda: self._complete(request))

    def check_installed(self) -> None:
        """See whether the package is there.

        Raises:
            MissingExtraError: it is not.
        """
        require([self.package], self.extra, f"the model {self.name!r}")

    def warm_up(self) -> None:
        """Import the package, which takes a second or so."""
        self.check_installed()
        importlib.import_module(self.package)

    def close(self) -> None:
        """Close the connections. The next question opens new ones."""
        with self._lock:
            client, self._client = self._client, None
            if self._leave is not None:
                self._leave.detach()
        if client is not None and client[0] is portal():
            client[0].submit(client[2].close()).result(_CLOSING_SECONDS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # ------------------------------------------------------------------ for each kind

    def _connect(self, key: str) -> Connection:
        """A connection, its own retries off."""
        raise NotImplementedError

    async def _answer(self, client: Any, request: R, sent: Sent) -> Completion:
        """Ask once.

        Args:
            client: of the connection.
            request: what to ask.
            sent: what must neither decide nor appear in an error.

        Raises:
            LLMError: it went wrong. Whatever else is raised is made one.
        """
        raise NotImplementedError

    def _texts(self, request: R) -> Sequence[str]:
        """What was sent that others wrote, to be known again in what the server writes."""
        raise NotImplementedError

    # ------------------------------------------------------------------ asking

    async def _complete(self, request: R) -> Completion:
        key = self._key()
        if self._refused is not None and self._refused[0] == key:
            if time.monotonic() - self._refused[1] < _CIRCUIT_SECONDS:
                told = "the key was refused less than a minute ago, so the server was not asked"
                where = self._where(bare(self._url), key)
                raise LLMError(f"{told} {where}", "circuit_open", sent=False)
            self._refused = None
        client = self._client
        if client is None or client[0] is not portal() or client[1] != key:
            client = await in_thread(lambda: self._connected(key))
        sent = self._sent_with(key, request)
        foreign: Exception | None = None
        try:
            completion = await self._answer(client[2].client, request, sent)
        except LLMError as error:
            fault, url = error, bare(self._url)
        except Exception as error:
            foreign = error
        else:
            return completion
        # Outside the except clause: a foreign exception holds the key and the prompt.
        if foreign is not None:
            refusal = await self._refusal_of(foreign, sent)
            fault = error_of(foreign) if refusal is None else refusal.error()
            url = address(foreign, self._url)
            del foreign
            # The status alone: words of a 400 can be those of a passage.
            if refusal is not None and refusal.status in {401, 403}:
                self._refused = key, time.monotonic()
        raise fault.with_message(f"{fault.message} {self._where(url, key)}")

    async def _refusal_of(self, error: Exception, sent: Sent) -> Refusal | None:
        """:func:`refusal_of`, in a thread: to look for echoes of megabytes takes seconds."""
        return await in_thread(lambda: refusal_of(error, sent))

    def _sent_with(self, key: Secret, request: R) -> Sent:
        """What was sent, to be known again in what the server writes."""
        value = key.reveal()
        secrets = [] if value == NO_KEY else [value]
        options = strings_in([self.options])
        return Sent([*self._texts(request), *options], [*secrets, *private_parts(self.base_url)])

    def _where(self, url: str, key: Secret) -> str:
        """The address, the model and the key's variable, as messages end."""
        value = key.reveal()
        if value != NO_KEY and value in url:
            url = ""
        names = variables(self.api_key_env) or self.key_variables
        source = next((name for name in names if variable(name) == value), "")
        known = "no key" if value == NO_KEY else f"key of {source or 'api_key'}"
        return f"[{', '.join(filter(None, [url, f'model {self.name}', known]))}]"

    def _key(self) -> Secret:
        if self.api_key is not None:
            return self._fit_for_a_header(self.api_key, "api_key")
        names = variables(self.api_key_env) or self.key_variables
        if key := first_set(names):
            source = next(name for name in names if variable(name))
            return self._fit_for_a_header(Secret(key), source)
        optional = self.api_key_env is None or isinstance(self.api_key_env, OptionalVariables)
        if self.base_url is not None and optional:
            return Secret(NO_KEY)  # servers of one's own often want none, and SDKs insist on one
        told = f"there is no key: set the environment variable {' or '.join(names)}"
        raise LLMError(told, "no_key", sent=False)

    def _fit_for_a_header(self, key: Secret, source: str) -> Secret:
        """The key.

        Raises:
            LLMError: no HTTP header can hold it.
        """
        if all(" " <= character <= "~" for character in key.reveal()):
            return key
        told = (
            f"the key in {source} has a character that no HTTP header can hold, such as a newline"
        )
        raise LLMError(told, "invalid_key", sent=False)

    def _connected(self, key: Secret) -> tuple[Portal, Secret, Connection]:
        """The client; made in a thread, for importing an SDK would block the loop for a second."""
        with self._lock:
            client = self._client
            if client is None or client[0] is not portal() or client[1] != key:
                self.check_installed()
                if self._leave is not None:
                    self._leave()  # of another key
                client = self._client = portal(), key, self._connect(key.reveal())
                # One that is dropped without close() must not leave connections open.
                self._leave = weakref.finalize(self, _leave, client[0], client[2])
                self._leave.atexit = False
            return client


def _leave(opened: Portal, connection: Connection) -> None:
    if opened.process == os.getpid():  # a child's connections are its parent's
        opened.submit(connection.close())


def whole(value: object) -> int | None:
    """A count of tokens as a server told it; None for what is none."""
    return value if type(value) is int and value >= 0 else None

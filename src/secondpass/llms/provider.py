"""What the clients of all providers share."""

from __future__ import annotations

import importlib
import os
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from secondpass.effects import Completion, Prompt
from secondpass.errors import ConfigurationError, LLMError
from secondpass.lazy import ForkLock, require
from secondpass.ledger import Prices
from secondpass.llms.faults import error_of, refusal_of
from secondpass.portal import Portal, in_thread, portal
from secondpass.settings import SECRET, Secret, nested

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, MinLen

Form: TypeAlias = Literal["json_schema", "json_object", "text"]
"""How a reply is asked for: bound to a schema, to be JSON, or by words alone."""

_CIRCUIT_SECONDS = 60.0
"""How long a key that was refused is not tried again."""
_CLOSING_SECONDS = 5.0


class Provider:
    """A hosted or local model behind a provider's SDK.

    Args:
        model: its name, as the provider writes it.
        base_url: where to ask instead of the provider's own address.
        api_key: the key. Better left to the environment: a configuration with a key in it cannot be
            written out.
        api_key_env: the environment variable that holds the key, instead of the provider's usual
            one. It is read when a model is first asked.
        temperature: of sampling; None leaves it to the model. Dropped for models that refuse it.
        max_tokens: longest reply, thinking included; None leaves it to the provider.
        timeout: seconds that one answer may take.
        structured: ``auto`` binds the reply to a JSON Schema, and steps down where the server
            cannot: to ``json_object``, then ``text``. The others ask for that form only.
        context_window: tokens that prompt and reply may have together; passages are cut to fit.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further parameters of the request, as the provider's API writes them.

    What a server turned out to refuse (a form of reply, a parameter) is remembered and not sent
    again. After a refused key no request is sent for a minute, unless the key changes. Redirects
    are not followed. May be used from many threads and event loops at once.
    """

    package: ClassVar[str]
    """The module of the SDK; the extra has the name of the kind."""
    extra: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]]
    forms: ClassVar[tuple[Form, ...]]

    def __init__(
        self,
        model: Annotated[str, MinLen(1)],
        *,
        base_url: Annotated[str, MinLen(1)] | None = None,
        api_key: Annotated[Any, SECRET] = None,
        api_key_env: Annotated[str, MinLen(1)] | None = None,
        temperature: Annotated[float, Ge(0), Le(2)] | None = 0.0,
        max_tokens: Annotated[int, Ge(1)] | None = None,
        timeout: Annotated[float, Gt(0)] = 60.0,
        structured: Literal["auto", "json_schema", "json_object", "text"] = "auto",
        context_window: Annotated[int, Ge(256)] | None = None,
        prices: Annotated[Prices | None, nested(Prices, optional=True)] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if api_key is not None and api_key_env is not None:
            raise ConfigurationError("api_key, api_key_env: give one of them")
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ConfigurationError("base_url: must begin with http:// or https://")
        if structured not in {"auto", *self.forms}:
            told = f"structured: {structured!r} is not to be had here; choose auto or one of: "
            raise ConfigurationError(told + ", ".join(self.forms))
        self.model = model
        self.base_url = base_url
        self.api_key: Secret | None = api_key
        self.api_key_env = api_key_env
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.timeout = timeout
        self.structured = structured
        self.context_window = context_window
        self.prices = prices
        self.options = options
        self._forms = self.forms if structured == "auto" else (structured,)
        self._step = 0
        self._dropped: set[str] = set()
        self._lock = ForkLock()
        self._client: tuple[Portal, str, Any] | None = None
        self._refused: tuple[str, float] | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask once.

        Raises:
            LLMError: no answer came.
            MissingExtraError: the SDK is not installed.
        """
        return await portal().call(lambda: self._complete(prompt))

    def check_installed(self) -> None:
        """See whether the SDK is there.

        Raises:
            MissingExtraError: it is not.
        """
        require([self.package], self.extra, f"the model {self.model!r}")

    def warm_up(self) -> None:
        """Import the SDK, which takes a second or so."""
        self.check_installed()
        importlib.import_module(self.package)

    def close(self) -> None:
        """Close the connections. The next question opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and client[0] is portal():
            client[0].submit(self._disconnect(client[2])).result(_CLOSING_SECONDS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r}>"

    # ------------------------------------------------------------------ for each provider

    def _connect(self, key: str) -> Any:
        """An asynchronous client of the SDK, its own retries off."""
        raise NotImplementedError

    @staticmethod
    async def _disconnect(client: Any) -> None:
        await client.close()

    async def _send(self, client: Any, prompt: Prompt, form: Form) -> Completion:
        """Ask once; whatever the SDK raises passes."""
        raise NotImplementedError

    def _parameters(self) -> dict[str, Any]:
        """Parameters that the request can do without, by the names that the API has for them."""
        raise NotImplementedError

    # ------------------------------------------------------------------ asking

    async def _complete(self, prompt: Prompt) -> Completion:
        key = self._key()
        if self._refused is not None and self._refused[0] == key:
            if time.monotonic() - self._refused[1] < _CIRCUIT_SECONDS:
                told = "the key was refused less than a minute ago, so the server was not asked"
                raise LLMError(told, "circuit_open")
            self._refused = None
        client = self._client
        if client is None or client[0] is not portal() or client[1] != key:
            client = await in_thread(lambda: self._connected(key))
        step = self._step
        form: Form = self._forms[step] if prompt.schema is not None else "text"
        try:
            return await self._send(client[2], prompt, form)
        except LLMError:
            raise
        except Exception as error:
            fault = self._fault(error, form, step)
        if fault.code == "authentication":
            self._refused = key, time.monotonic()
        raise fault  # outside the except clause: the SDK's exception holds the key and the prompt

    def _key(self) -> str:
        if self.api_key is not None:
            return self.api_key.reveal()
        variables = (self.api_key_env,) if self.api_key_env else self.key_variables
        for variable in variables:
            if key := os.environ.get(variable, "").strip():
                return key
        if self.base_url is not None and self.api_key_env is None:
            return "none"  # servers of one's own often want none, and SDKs insist on one
        told = f"there is no key: set the environment variable {' or '.join(variables)}"
        raise LLMError(told, "no_key")

    def _connected(self, key: str) -> tuple[Portal, str, Any]:
        """The client; made in a thread, for importing an SDK would block the loop for a second."""
        with self._lock:
            client = self._client
            if client is None or client[0] is not portal() or client[1] != key:
                self.check_installed()
                client = self._client = portal(), key, self._connect(key)
                # A reranker that is dropped without close() must not leave connections open.
                leave = weakref.finalize(self, _leave, client[0], self._disconnect, client[2])
                leave.atexit = False
            return client

    def _fault(self, error: Exception, form: Form, step: int) -> LLMError:
        """The exception in our own words; and what can be sent differently, is from now on."""
        refusal = refusal_of(error)
        if refusal is None:
            return error_of(error)
        if refusal.too_long:
            return refusal.error()
        for name in self._parameters():
            if refusal.blames(name):
                self._dropped.add(name)
                told = f"the server refused the parameter {name}, which is not sent again"
                return LLMError(told, "parameter_refused", adapted=True)
        if refusal.of_the_format and form != "text" and step + 1 < len(self._forms):
            # Of questions that were refused side by side only one takes the step.
            self._step = max(self._step, step + 1)
            told = f"the server refused {form}, which is not asked for again"
            return LLMError(told, "format_refused", adapted=True)
        return refusal.error()

    def _sent(self) -> dict[str, Any]:
        """The parameters that the server has not refused."""
        return {
            name: value for name, value in self._parameters().items() if name not in self._dropped
        }


def _leave(
    opened: Portal, disconnect: Callable[[Any], Coroutine[Any, Any, None]], client: Any
) -> None:
    if opened.process == os.getpid():  # a child's connections are its parent's
        opened.submit(disconnect(client))


def whole(value: object) -> int | None:
    """A count of tokens as a server told it; None for what is none."""
    return value if type(value) is int and value >= 0 else None


def joined(content: object) -> str:
    """The text of a reply that may come as a list of parts; thinking is left out."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = []
    for part in parts:
        one = part if isinstance(part, Mapping) else getattr(part, "__dict__", {})
        text = one.get("text")
        if one.get("type", "text") in {"text", "output_text"} and isinstance(text, str):
            texts.append(text)
    return "".join(texts)

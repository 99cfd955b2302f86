"""Base class of language models behind a provider's API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from secondpass.errors import ConfigurationError, LLMError
from secondpass.limits import PRICES, Prices
from secondpass.prompts.replies.first_token import is_answered
from secondpass.questions import Completion, Prompt
from secondpass.services.client import Client
from secondpass.services.diagnosis import Sent
from secondpass.services.provider_errors import ErrorResponse
from secondpass.services.recent import Recent
from secondpass.settings import SECRET, Secret, Variables, built, show_types

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, MinLen

T = TypeVar("T")

Form: TypeAlias = Literal["json_schema", "json_object", "text"]
"""How a reply is constrained: to a JSON Schema, to JSON, or only by the prompt."""

_LOGPROBS = "log probabilities"
"""Their name among rejected parameters, since each API names them differently."""
_FEW_TOKENS = 16
"""The longest reply that is requested where only its first token is read: white space may come
before it, and some servers refuse a limit of one."""
_SHORT = "short replies"
"""Their name among rejected parameters: the model thinks first, or the server refuses the limit."""


class Provider(Client[Prompt]):
    """A hosted or local model behind a provider's API.

    Args:
        model: its name, as the provider writes it.
        base_url: replaces the provider's own address; the whole address of requests is one, too.
        api_key: the key. Prefer an environment variable: a configuration that contains a key cannot
            be written to a file.
        api_key_env: environment variable that holds the key, or several to try in turn, instead of
            the provider's usual one. Read when the model is first called.
        temperature: of sampling; None is the model's default. Omitted for models that reject it.
        max_tokens: maximum length of a reply, including reasoning; None is the provider's default.
        timeout: seconds per answer.
        structured: ``auto`` constrains the reply to a JSON Schema, or to ``json_object``, then
            ``text``, if the server does not support it. The other values use one form only.
        context_window: tokens of prompt and reply together; passages are cut to fit.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further fields of the request, as the provider's API names them.

    A form or parameter that the server rejects is not sent again for ten minutes. See
    :class:`~secondpass.services.client.Client` for keys and connections.

    Subclasses set ``package``, ``extra``, ``key_variables``, ``forms`` and ``length_names``, the
    names of ``max_tokens`` in the API (both best first), and implement ``_connect`` and ``_send``;
    and ``_parameters`` if the API has another name for the temperature. If it has log
    probabilities, they set ``has_logprobs``, and ``_send`` asks for those that ``prompt.logprobs``
    wants, with ``_short(prompt)``. Without an SDK they also set ``url``, and use
    :mod:`secondpass.services.json_http`.
    """

    forms: ClassVar[tuple[Form, ...]]
    has_logprobs: ClassVar[bool] = False
    length_names: ClassVar[tuple[str, ...]] = ()
    sdk_paths: ClassVar[tuple[str, ...]] = ()
    """Ends of a base URL that the SDK appends itself; ``$model`` stands for the model's name."""

    @show_types
    def __init__(
        self,
        model: Annotated[str, MinLen(1)],
        *,
        base_url: Annotated[str, MinLen(1)] | None = None,
        api_key: Annotated[Any, SECRET] = None,
        api_key_env: Variables = None,
        temperature: Annotated[float, Ge(0), Le(2)] | None = 0.0,
        max_tokens: Annotated[int, Ge(1)] | None = None,
        timeout: Annotated[float, Gt(0)] = 60.0,
        structured: Literal["auto", "json_schema", "json_object", "text"] = "auto",
        context_window: Annotated[int, Ge(256)] | None = None,
        prices: Annotated[Prices | Mapping[str, Any] | None, PRICES] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if reserved := {"model", "messages", "contents", "system", "stream"} & set(options or ()):
            raise ConfigurationError(f"options: {min(reserved)!r} cannot be set in options")
        if structured not in {"auto", *self.forms}:
            supported = ", ".join(("auto", *self.forms))
            raise ConfigurationError(
                f"structured: {structured!r} is not supported by this provider; "
                f"choose one of: {supported}"
            )
        self.model = model
        self.base_url = base_url
        self.api_key: Secret | None = api_key
        self.api_key_env = api_key_env
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.timeout = timeout
        self.structured = structured
        self.context_window = context_window
        self.prices = built(prices)
        self.options = options
        self._forms = self.forms if structured == "auto" else (structured,)
        self._latest_step: Recent[None, int] = Recent()
        """Index of the form in use, after the one before it was rejected (:attr:`_step`)."""
        self._rejected: Recent[str, bool] = Recent()
        """Parameters that the server rejected."""
        self._prepare()

    # ------------------------------------------------------------------ for subclasses

    async def _send(self, client: Any, prompt: Prompt, form: Form) -> Completion:
        """Call the API once, with the parameters of ``_sent()``.

        Exceptions of the SDK, and :class:`~secondpass.services.json_http.StatusError`, may pass.

        Raises:
            LLMError: the response has no reply, or the model refused to answer.
        """
        raise NotImplementedError

    def _parameters(self) -> dict[str, Any]:
        """Optional parameters of the request, by their names in the API."""
        named = {"temperature": self.temperature, **self._length(self.max_tokens)}
        parameters = {name: value for name, value in named.items() if value is not None}
        return {**parameters, **(self.options or {})}

    @property
    def _sdk_url(self) -> str | None:
        """The base URL for the SDK, without what it appends itself; None for the provider's own."""
        variables = (os.environ.get(name) for name in self.url_variables)
        url = self.base_url or next(filter(None, variables), None)
        if url is None:
            return None
        base = url.rstrip("/")
        for path in self.sdk_paths:
            end = path.replace("$model", self.name)
            if base.endswith(end):
                return base.removesuffix(end)
        return url

    # ------------------------------------------------------------------ requests

    def _texts(self, request: Prompt) -> Sequence[str]:
        return [request.system, *(turn.text for turn in request.turns)]

    async def _answer(self, client: Any, request: Prompt, sent: Sent) -> Completion:
        step = self._step
        form: Form = self._forms[step] if request.schema is not None else "text"
        parameters = self._sent()
        if request.logprobs and _LOGPROBS in self._dropped:
            if request.needs_logprobs:
                message = "not sent: the server rejected log probabilities less than 10 minutes ago"
                raise LLMError(message, "logprobs_refused", sent=False)
            request = replace(request, logprobs=0)
        short = self._short(request)
        try:
            completion = await self._send(client, request, form)
            return self._finished(completion, request) if short and completion.cut else completion
        except LLMError:
            raise
        except Exception as error:
            foreign = error
        response = await self._error_response(foreign, sent)
        adaptation = None
        if response is not None:
            adaptation = self._adaptation(response, request, step, short, parameters)
        try:
            raise adaptation or foreign
        finally:
            del foreign  # a cycle with its traceback would keep the key and the prompt alive

    def _finished(self, completion: Completion, request: Prompt) -> Completion:
        """A reply that was cut after the answer that is read.

        If it was cut before, that is an LLMError, and other replies are not shortened for a time.
        """
        if is_answered(completion.text, request.words):
            return replace(completion, cut=False)
        self._rejected.remember(_SHORT, True)
        message = (
            f"the reply was no answer within {_FEW_TOKENS} tokens, as of a model that thinks;"
            " replies are now longer"
        )
        tokens = completion.input_tokens, completion.output_tokens
        raise LLMError(message, "reply_too_short", adapted=True, tokens=tokens)

    def _adaptation(
        self,
        response: ErrorResponse,
        request: Prompt,
        step: int,
        short: Mapping[str, Any],
        parameters: Mapping[str, Any],
    ) -> LLMError | None:
        """Stop sending what the response blames, for ten minutes; None if it blames nothing."""
        if response.too_long:
            return None
        if request.logprobs and response.blames_logprobs:
            return self._without_logprobs(request, response)
        for name in {**short, **parameters}:
            if response.blames(name):
                self._rejected.remember(name, True)
                return _omitted(name, response)
        has_next = request.schema is not None and step + 1 < len(self._forms)
        if has_next and response.blames_format:
            # Concurrent requests that are rejected take the step once.
            self._latest_step.remember(None, max(self._step, step + 1))
            return _omitted(self._forms[step], response, "format_refused")
        # Servers that refuse so low a limit, or whose model thinks for longer, blame various names.
        if short and response.status in {400, 422} and response.error().code == "bad_request":
            self._rejected.remember(_SHORT, True)
            message = (
                f"the server rejected a request for {_FEW_TOKENS} tokens; replies are now longer"
            )
            return LLMError(f"{message} {response.source}", "parameter_refused", adapted=True)
        return None

    def _without_logprobs(self, request: Prompt, response: ErrorResponse) -> LLMError:
        self._rejected.remember(_LOGPROBS, True)
        if request.needs_logprobs:
            message = f"the server rejected log probabilities {response.source}"
            return LLMError(message, "logprobs_refused")
        return _omitted(_LOGPROBS, response)

    def _short(self, prompt: Prompt) -> dict[str, int]:
        """The limit of a reply of which only the first token is read; empty for others."""
        if not prompt.words or not prompt.logprobs or _SHORT in self._dropped:
            return {}
        options = self.options or {}
        if self.max_tokens is not None or any(name in options for name in self.length_names):
            return {}
        return self._length(_FEW_TOKENS)

    def _length(self, limit: T) -> dict[str, T]:
        """The parameter that limits a reply, by the best name that the server did not reject."""
        dropped = self._dropped
        for name in self.length_names:
            if name not in dropped:
                return {name: limit}
        return {}

    @property
    def _step(self) -> int:
        """Index of the form in use."""
        return self._latest_step.get(None) or 0

    @property
    def _dropped(self) -> set[str]:
        """The parameters that the server rejected recently."""
        return self._rejected.keys()

    def _sent(self) -> dict[str, Any]:
        """The parameters to send: ``_parameters()`` without those in ``_dropped``."""
        dropped = self._dropped
        return {name: value for name, value in self._parameters().items() if name not in dropped}


def _omitted(name: str, response: ErrorResponse, code: str = "parameter_refused") -> LLMError:
    """The error of a request that is sent again without what the server rejected."""
    message = f"the server rejected {name}; further requests omit this {response.source}"
    return LLMError(message, code, adapted=True)


def joined(content: object) -> str:
    """The text of a reply that may be a list of parts; reasoning is left out."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else []:
        fields = part if isinstance(part, Mapping) else getattr(part, "__dict__", {})
        text = fields.get("text")
        if fields.get("type", "text") in {"text", "output_text"} and isinstance(text, str):
            texts.append(text)
    return "".join(texts)

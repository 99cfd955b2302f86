"""What the clients of all providers of language models share."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from secondpass.effects import Completion, Prompt
from secondpass.errors import ConfigurationError, LLMError
from secondpass.limits import Prices
from secondpass.services.client import REMEMBERED_SECONDS, Client
from secondpass.services.echoes import Sent
from secondpass.services.provider_errors import Refusal
from secondpass.settings import SECRET, Secret, Variables, nested

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, MinLen

Form: TypeAlias = Literal["json_schema", "json_object", "text"]
"""How a reply is asked for: bound to a schema, to be JSON, or by words alone."""


class Provider(Client[Prompt]):
    """A hosted or local model behind a provider's SDK.

    Args:
        model: its name, as the provider writes it.
        base_url: where to ask instead of the provider's own address.
        api_key: the key. Better left to the environment: a configuration with a key in it cannot be
            written out.
        api_key_env: the environment variable that holds the key, or several to try in turn, instead
            of the provider's usual one. It is read when a model is first asked.
        temperature: of sampling; None leaves it to the model. Dropped for models that refuse it.
        max_tokens: longest reply, thinking included; None leaves it to the provider.
        timeout: seconds that one answer may take.
        structured: ``auto`` binds the reply to a JSON Schema, and steps down where the server
            cannot: to ``json_object``, then ``text``. The others ask for that form only.
        context_window: tokens that prompt and reply may have together; passages are cut to fit.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further parameters of the request, as the provider's API writes them.

    What a server turned out to refuse (a form of reply, a parameter) is not sent again for ten
    minutes. The rest is as in :class:`~secondpass.services.client.Client`.
    """

    forms: ClassVar[tuple[Form, ...]]

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
        prices: Annotated[Prices | None, nested(Prices, optional=True)] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if taken := {"model", "messages", "contents", "system", "stream"} & set(options or ()):
            raise ConfigurationError(f"options: {min(taken)!r} is not theirs to set")
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
        self._steps = 0, -math.inf
        self._refusals: dict[str, float] = {}
        self._prepare()

    # ------------------------------------------------------------------ for each provider

    async def _send(self, client: Any, prompt: Prompt, form: Form) -> Completion:
        """Ask once; whatever the SDK raises passes."""
        raise NotImplementedError

    def _parameters(self) -> dict[str, Any]:
        """Parameters that the request can do without, by the names that the API has for them."""
        raise NotImplementedError

    # ------------------------------------------------------------------ asking

    def _texts(self, request: Prompt) -> Sequence[str]:
        return [request.system, *(turn.text for turn in request.turns)]

    async def _answer(self, client: Any, request: Prompt, sent: Sent) -> Completion:
        step = self._step
        form: Form = self._forms[step] if request.schema is not None else "text"
        parameters = self._sent()
        try:
            return await self._send(client, request, form)
        except LLMError:
            raise
        except Exception as error:
            foreign = error
        refusal = await self._refusal_of(foreign, sent)
        adapted = None if refusal is None else self._adapted(refusal, form, step, parameters)
        try:
            raise foreign if adapted is None else adapted
        finally:
            del foreign  # a cycle with its traceback would keep the key and the prompt for a while

    def _adapted(
        self, refusal: Refusal, form: Form, step: int, sent: Mapping[str, Any]
    ) -> LLMError | None:
        """Send it differently for a while, if something that can be left out is blamed."""
        if refusal.too_long:
            return None
        for name in sent:
            if refusal.blames(name):
                self._refusals[name] = time.monotonic()
                told = (
                    f"the server refused the parameter {name}, which is left out {refusal.source}"
                )
                return LLMError(told, "parameter_refused", adapted=True)
        if refusal.of_the_format and form != "text" and step + 1 < len(self._forms):
            # Of questions that were refused side by side only one takes the step.
            self._steps = max(self._step, step + 1), time.monotonic()
            told = f"the server refused {form}, which is left out {refusal.source}"
            return LLMError(told, "format_refused", adapted=True)
        return None

    @property
    def _step(self) -> int:
        """How far the form of reply has stepped down."""
        step, since = self._steps
        return step if time.monotonic() - since < REMEMBERED_SECONDS else 0

    @property
    def _dropped(self) -> set[str]:
        """The parameters that the server refused lately."""
        now = time.monotonic()
        return {name for name, since in self._refusals.items() if now - since < REMEMBERED_SECONDS}

    def _sent(self) -> dict[str, Any]:
        """The parameters that the server has not refused."""
        dropped = self._dropped
        return {name: value for name, value in self._parameters().items() if name not in dropped}


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

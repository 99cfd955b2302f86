"""A function as a language model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.concurrency.threads import in_task_of, in_thread_of, with_timeout
from secondpass.errors import LLMError
from secondpass.limits import PRICES, Prices
from secondpass.questions import Completion, Prompt
from secondpass.settings import built, check_takes, configurable

if TYPE_CHECKING:
    from annotated_types import Ge, Gt


@configurable
class CallableLLM:
    """Calls a function, synchronous or asynchronous.

    Args:
        function: called with the messages, ``[{"role": "system" | "user" | "assistant", "content":
            str}, ...]``, and, if it has these parameters, the keywords ``schema`` (the reply's JSON
            Schema, or None), ``timeout`` (seconds) and ``logprobs`` (number of alternatives per
            token whose log probabilities are requested; 0 for none). Without ``logprobs``, it
            has no log probabilities. It returns the reply as a string, or a
            :class:`~secondpass.questions.Completion` with token counts and log probabilities. It
            should raise :class:`~secondpass.errors.LLMError` with a message for the report. The
            report names only the class of any other exception, because its message may contain
            passages or keys; under ``strict`` it is the ``__cause__`` of RerankError, and
            :mod:`secondpass.ranking.diagnostics` can log it. Its answers are stored in a response
            cache if it has an attribute ``cache_key``: JSON values that include everything its
            answers depend on.
        name: for reports; the function's name if None.
        timeout: seconds per answer.
        prices: per million tokens, for ``limits.cost`` and the report.
        context_window: tokens of prompt and reply together.

    A synchronous function runs in a thread, several at once (``limits.concurrency``). An
    asynchronous one runs in the loop of ``arerank``, or for ``rerank`` in a background loop. Cannot
    be written to a configuration.
    """

    own_code = True

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        timeout: Annotated[float, Gt(0)] = 60.0,
        prices: Annotated[Prices | Mapping[str, Any] | None, PRICES] = None,
        context_window: Annotated[int, Ge(256)] | None = None,
    ) -> None:
        self._keywords = _parameter_names(function) & {"schema", "timeout", "logprobs"}
        check_takes(function, "the function", "messages", keywords=self._keywords)
        self.function = function
        self.name = name or getattr(function, "__name__", None) or type(function).__name__
        self.timeout = timeout
        self.prices = built(prices)
        self.context_window = context_window

    @property
    def has_logprobs(self) -> bool:
        """Whether the function takes the keyword ``logprobs``."""
        return "logprobs" in self._keywords

    @property
    def cache_key(self) -> Any:
        """The function's own ``cache_key``; None if it has none."""
        return getattr(self.function, "cache_key", None)

    async def complete(self, prompt: Prompt) -> Completion:
        """Call the function once."""
        messages = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        if prompt.system:
            messages.insert(0, {"role": "system", "content": prompt.system})
        available = {
            "schema": prompt.schema,
            "timeout": self.timeout,
            "logprobs": prompt.logprobs,
        }
        keywords = {name: available[name] for name in self._keywords}
        if inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - objects with an async __call__
        ):
            reply = await in_task_of(self.function, lambda: self.function(messages, **keywords))
        else:
            reply = await in_thread_of(self.function, lambda: self.function(messages, **keywords))
            if inspect.isawaitable(reply):
                reply = await with_timeout(reply, None, owner=self.function)
        if isinstance(reply, Completion):
            return reply
        if isinstance(reply, str):
            return Completion(reply)
        raise LLMError(
            f"the function returned {type(reply).__name__}, not a string", "bad_response"
        )


def _parameter_names(function: Callable[..., Any]) -> set[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtins
        return set()
    kinds = {"KEYWORD_ONLY", "POSITIONAL_OR_KEYWORD"}
    return {parameter.name for parameter in [*parameters][1:] if parameter.kind.name in kinds}

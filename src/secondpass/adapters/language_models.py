"""Model objects of frameworks as language models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar

from secondpass.concurrency.portal import HomeLoop
from secondpass.concurrency.threads import in_task_of, in_thread_of
from secondpass.llms.finish_reasons import check_answered, is_truncated
from secondpass.llms.usage import token_counts
from secondpass.questions import Completion


class FrameworkLLM:
    """Base class of language models that wrap a framework's model object.

    A derived class has a ``name``, and an asynchronous ``complete(prompt)`` that calls the object
    by :meth:`call` and returns a :func:`completion`.

    Args:
        timeout: seconds that one answer may take.

    Attributes:
        used: the interfaces of the object that have been used: ``sync``, ``async``.
        default_timeout: seconds that one answer may take, unless ``timeout`` says otherwise.
    """

    default_timeout: ClassVar[float] = 60.0

    def __init__(self, timeout: float = default_timeout) -> None:
        self.timeout = timeout
        self.home = HomeLoop()
        self.used: set[str] = set()

    async def call(
        self,
        method: Callable[..., Any],
        method_async: Callable[..., Awaitable[Any]] | None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Await ``method_async`` in the event loop that the object's client belongs to.

        Elsewhere, or if it is None, ``method`` is called in a thread.
        """
        if method_async is not None and self.home.is_here():
            self.used.add("async")
            return await in_task_of(method_async, partial(method_async, *args, **kwargs))
        self.used.add("sync")
        return await in_thread_of(method, partial(method, *args, **kwargs))


class SavedByAdapter:
    """Mixin for a `FrameworkLLM` whose model object the adapter saves itself."""

    timeout: float

    def as_setting(self, _place: str) -> dict[str, Any] | None:
        """Its setting in the configuration: the timeout, unless that is the default."""
        return None if self.timeout == FrameworkLLM.default_timeout else {"timeout": self.timeout}


def completion(text: str, finish_reason: object, usage: Any) -> Completion:
    """A reply with the token counts of ``usage``, a mapping or an object.

    Raises:
        LLMError: the model refused to answer, as ``finish_reason`` says.
    """
    check_answered(finish_reason)
    return Completion(text, is_truncated(finish_reason), *token_counts(usage))

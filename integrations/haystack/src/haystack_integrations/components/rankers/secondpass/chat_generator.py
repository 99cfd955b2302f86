"""Any Haystack ChatGenerator as a language model."""

from typing import Any

from haystack.components.generators.chat.types import ChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tracing.tracer import tracer

from secondpass.adapters import (
    Closing,
    FrameworkLLM,
    SavedByAdapter,
    completion,
    explained,
    in_thread,
)
from secondpass.extend import Completion, LLMError, Prompt


class ChatGeneratorLLM(FrameworkLLM):
    """A ChatGenerator as a language model; its calls are traced as `haystack.chat_generator.run`.

    In a pipeline that runs asynchronously its `run_async` is awaited in the pipeline's event loop.
    Without a `run_async`, outside an event loop, and in another event loop than the one that its
    client belongs to, `run` is called in a thread.
    """

    @explained()
    def __init__(
        self, chat_generator: ChatGenerator, timeout: float = FrameworkLLM.default_timeout
    ) -> None:
        """Create a ChatGeneratorLLM.

        :param chat_generator:
            Anything with a `run(messages)` that returns `replies`.
        :param timeout:
            Seconds that one answer may take.
        """
        super().__init__(timeout)
        self.chat_generator = chat_generator

    @property
    def name(self) -> str:
        """The model's name if the generator has it, else that of its class."""
        model = getattr(self.chat_generator, "model", None)
        return model if isinstance(model, str) and model else type(self.chat_generator).__name__

    @property
    def cache_key(self) -> Any:
        """The generator's own `cache_key`, by which its answers are stored; `None` without one."""
        return getattr(self.chat_generator, "cache_key", None)

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt.

        :raises secondpass.errors.LLMError:
            If there is no reply.
        """
        messages = [
            ChatMessage.from_user(turn.text)
            if turn.role == "user"
            else ChatMessage.from_assistant(turn.text)
            for turn in prompt.turns
        ]
        if prompt.system:
            messages.insert(0, ChatMessage.from_system(prompt.system))
        generator: Any = self.chat_generator
        with tracer.trace(
            "haystack.chat_generator.run",
            tags={
                "haystack.component.name": "chat_generator",
                "haystack.component.type": type(generator).__name__,
            },
            parent_span=tracer.current_span(),
        ) as span:
            span.set_content_tag("haystack.component.input", {"messages": messages})
            run_async = getattr(generator, "run_async", None)
            result = await self.call(generator.run, run_async, messages=messages)
            span.set_content_tag("haystack.component.output", result)
        replies = result.get("replies") if isinstance(result, dict) else None
        if not replies or not isinstance(replies[0], ChatMessage):
            raise LLMError("the chat generator gave no reply", "bad_response")
        meta = replies[0].meta
        return completion(replies[0].text or "", meta.get("finish_reason"), meta.get("usage") or {})

    def warm_up(self) -> None:
        """Warm up the generator."""
        if hasattr(self.chat_generator, "warm_up"):
            self.chat_generator.warm_up()

    def close(self) -> None:
        """Close the generator."""
        if hasattr(self.chat_generator, "close"):
            self.chat_generator.close()


class OwnedChatGenerator(SavedByAdapter, ChatGeneratorLLM):
    """A chat generator that the component saves, warms up and closes itself."""

    def warm_up(self) -> None:
        """Do nothing: the core calls this, and the component warms up the generator."""

    def close(self) -> None:
        """Do nothing: the core calls this, and the component closes the generator."""

    def warm_up_sync(self) -> None:
        """Warm up the synchronous interface."""
        if hasattr(self.chat_generator, "warm_up"):
            self.used.add("sync")
            self.chat_generator.warm_up()

    async def warm_up_async(self) -> None:
        """Warm up the asynchronous interface; without one, the synchronous one in a thread."""
        if hasattr(self.chat_generator, "warm_up_async"):
            self.used.add("async")
            await self.chat_generator.warm_up_async()
        else:
            await in_thread(self.warm_up_sync)

    def close_sync(self) -> None:
        """Close the interfaces that were used, except an asynchronous one with a `close_async`."""
        if hasattr(self.chat_generator, "close") and self._take("sync"):
            self.chat_generator.close()

    async def close_async(self) -> None:
        """Close the interfaces that were used: asynchronous here, synchronous in a thread.

        A generator that cannot be closed, such as those of Haystack 2, keeps the connections of its
        event loop, so in another event loop its `run` is called.
        """
        generator: Any = self.chat_generator
        has_async, has_sync = (hasattr(generator, name) for name in ("close_async", "close"))
        if has_async or has_sync:
            self.home.leave()
        closing = Closing()
        with closing:
            if has_async and self._take("async"):
                await generator.close_async()
        with closing:
            if has_sync and self._take("sync"):
                await in_thread(generator.close)
        closing.end()

    def _take(self, interface: str) -> bool:
        """Mark an interface as closed; return whether it was used since it was last closed.

        If a generator has only one closing method, that closes both interfaces.
        """
        both = hasattr(self.chat_generator, "close") and hasattr(self.chat_generator, "close_async")
        interfaces = {interface} if both else {"sync", "async"}
        used = not interfaces.isdisjoint(self.used)
        self.used -= interfaces
        return used

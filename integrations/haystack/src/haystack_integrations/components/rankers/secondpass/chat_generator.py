"""Any Haystack ChatGenerator as the language model that secondpass asks."""

from typing import Any

from haystack.components.generators.chat.types import ChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tracing.tracer import tracer

from secondpass.adapters.home_loop import ForeignLLM, count
from secondpass.concurrency.threads import in_thread
from secondpass.effects import Completion, Prompt
from secondpass.errors import LLMError


class ChatGeneratorLLM(ForeignLLM):
    """Asks a ChatGenerator, as `haystack.chat_generator.run` in traces.

    In a pipeline that runs asynchronously its `run_async` is awaited in the pipeline's own event
    loop. Otherwise, where it has none, and in another event loop than the one that its client lives
    in, `run` is called in a thread.
    """

    def __init__(self, chat_generator: ChatGenerator, timeout: float = 60.0) -> None:
        """Create a ChatGeneratorLLM.

        :param chat_generator:
            What is asked. Anything with a `run(messages)` that returns `replies`.
        :param timeout:
            Seconds that one answer may take.
        """
        super().__init__(timeout)
        self.chat_generator = chat_generator
        self._used: set[str] = set()  # which sides: "sync", "async"

    @property
    def name(self) -> str:
        """The model's name where the generator tells it, else that of its class."""
        model = getattr(self.chat_generator, "model", None)
        return model if isinstance(model, str) and model else type(self.chat_generator).__name__

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask once.

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
        with tracer.trace(
            "haystack.chat_generator.run",
            tags={
                "haystack.component.name": "chat_generator",
                "haystack.component.type": type(self.chat_generator).__name__,
            },
            parent_span=tracer.current_span(),
        ) as span:
            span.set_content_tag("haystack.component.input", {"messages": messages})
            result = await self._run(messages)
            span.set_content_tag("haystack.component.output", result)
        replies = result.get("replies") if isinstance(result, dict) else None
        if not replies or not isinstance(replies[0], ChatMessage):
            raise LLMError("the chat generator gave no reply", "bad_response")
        meta = replies[0].meta
        reason = meta.get("finish_reason")
        if reason in {"content_filter", "refusal", "safety"}:
            raise LLMError("the model refused to answer", "content_filter")
        usage = meta.get("usage") or {}
        return Completion(
            replies[0].text or "",
            reason in {"length", "max_tokens"},
            count(usage, "prompt_tokens", "input_tokens"),
            count(usage, "completion_tokens", "output_tokens"),
        )

    async def _run(self, messages: list[ChatMessage]) -> Any:
        generator: Any = self.chat_generator
        if hasattr(generator, "run_async") and self.home.is_here():
            self._used.add("async")
            return await generator.run_async(messages=messages)
        self._used.add("sync")
        return await in_thread(lambda: generator.run(messages=messages))

    def warm_up(self) -> None:
        """Warm up the generator."""
        if hasattr(self.chat_generator, "warm_up"):
            self.chat_generator.warm_up()

    def close(self) -> None:
        """Close the generator."""
        if hasattr(self.chat_generator, "close"):
            self.chat_generator.close()


class OwnedChatGenerator(ChatGeneratorLLM):
    """A chat generator that the component saves, warms up and closes by itself."""

    def as_setting(self, _where: str) -> dict[str, Any] | None:
        """What a configuration holds of it: nothing but its timeout."""
        return self.apart()

    def warm_up(self) -> None:
        """Do nothing: models are warmed up by the core, and this by the component."""

    def close(self) -> None:
        """Do nothing, likewise."""

    def warm_up_sync(self) -> None:
        """Warm up the generator's synchronous side."""
        if hasattr(self.chat_generator, "warm_up"):
            self._used.add("sync")
            self.chat_generator.warm_up()

    async def warm_up_async(self) -> None:
        """Warm up its asynchronous side; where there is none, the other in a thread."""
        if hasattr(self.chat_generator, "warm_up_async"):
            self._used.add("async")
            await self.chat_generator.warm_up_async()
        else:
            await in_thread(self.warm_up_sync)

    def close_sync(self) -> None:
        """Close what was used, but for the asynchronous side if that has a method of its own."""
        if hasattr(self.chat_generator, "close") and self._take("sync"):
            self.chat_generator.close()

    async def close_async(self) -> None:
        """Close what was used: the asynchronous side in this event loop, the other in a thread."""
        self.home.leave()
        if hasattr(self.chat_generator, "close_async") and self._take("async"):
            await self.chat_generator.close_async()
        if hasattr(self.chat_generator, "close") and self._take("sync"):
            await in_thread(self.chat_generator.close)

    def _take(self, side: str) -> bool:
        """Whether this side was used; from now on it was not.

        A generator with one method for closing has both its sides closed by it.
        """
        both = hasattr(self.chat_generator, "close") and hasattr(self.chat_generator, "close_async")
        sides = {side} if both else {"sync", "async"}
        used = not sides.isdisjoint(self._used)
        self._used -= sides
        return used

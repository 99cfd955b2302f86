"""Any LlamaIndex LLM as the language model that secondpass asks."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.llms import LLM, CustomLLM, MockLLM

from secondpass.effects import Completion, Prompt
from secondpass.portal import in_thread, portal


class LlamaIndexLLM:
    """Asks an LLM by its chat interface, which completion models have as well.

    In an event loop its asynchronous interface is awaited there. Otherwise, and for LLMs whose
    asynchronous interface would block the loop, the synchronous one is called in a thread.

    Args:
        llm: what is asked.
        timeout: seconds that one answer may take.
    """

    def __init__(self, llm: LLM, timeout: float = 60.0) -> None:
        self.llm = llm
        self.timeout = timeout

    @property
    def name(self) -> str:
        """The model's name where the LLM tells it, else that of its class."""
        name = self.llm.metadata.model_name
        return name if name and name != "unknown" else self.llm.class_name()

    @property
    def context_window(self) -> int | None:
        """Tokens that prompt and reply may have together, where the LLM has set it."""
        metadata = self.llm.metadata
        return metadata.context_window if "context_window" in metadata.model_fields_set else None

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask once."""
        roles = {"user": MessageRole.USER, "assistant": MessageRole.ASSISTANT}
        messages = [ChatMessage(role=roles[turn.role], content=turn.text) for turn in prompt.turns]
        if prompt.system:
            role = self.llm.metadata.system_role
            messages.insert(0, ChatMessage(role=role, content=prompt.system))
        # A client that lives in the application's event loop must not be awaited in ours.
        ours = asyncio.get_running_loop() is portal().loop
        if ours or isinstance(self.llm, CustomLLM | MockLLM):
            response = await in_thread(lambda: self.llm.chat(messages))
        else:
            response = await self.llm.achat(messages)
        usage = _usage(response)
        return Completion(
            response.message.content or "",
            False,
            _whole(usage, "prompt_tokens", "input_tokens", "prompt_token_count"),
            _whole(usage, "completion_tokens", "output_tokens", "candidates_token_count"),
        )


def _usage(response: ChatResponse) -> Any:
    for holder in (response.raw, response.message.additional_kwargs, response.additional_kwargs):
        for name in ("usage", "usage_metadata"):
            usage = _get(holder, name)
            if usage is not None:
                return usage
    return response.additional_kwargs


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)


def _whole(usage: Any, *names: str) -> int | None:
    for name in names:
        value = _get(usage, name)
        if type(value) is int:
            return value
    return None

"""Any LlamaIndex LLM as a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.llms import LLM, CustomLLM, MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata

from secondpass.adapters import (
    FrameworkLLM,
    SavedByAdapter,
    completion,
    error_response,
    explained,
    part,
)
from secondpass.extend import Completion, LLMError, Prompt

_TOOL = "answer"
_ROLES = {"user": MessageRole.USER, "assistant": MessageRole.ASSISTANT}


class LlamaIndexLLM(FrameworkLLM):
    """An LLM, called by its chat interface, which completion models have as well.

    Function calling models are given the reply format as a tool that they have to call. One that
    rejects the tool is asked without it from then on.

    In an event loop the asynchronous interface is awaited there. Outside an event loop, in another
    one than the client belongs to, and for LLMs whose asynchronous interface would block the loop,
    the synchronous one is called in a thread.

    Args:
        llm: an LLM of LlamaIndex.
        timeout: seconds that one answer may take.
        structured: whether to use function calling if the LLM supports it.
    """

    @explained()
    def __init__(
        self,
        llm: LLM,
        timeout: float = FrameworkLLM.default_timeout,
        *,
        structured: bool = True,
    ) -> None:
        super().__init__(timeout)
        self.llm = llm
        self.structured = self._structured_at_first = structured

    @property
    def name(self) -> str:
        """The model's name if the LLM has it, else that of its class."""
        name = self.llm.metadata.model_name
        return name if name and name != "unknown" else type(self.llm).__name__

    @property
    def context_window(self) -> int | None:
        """Tokens of prompt and reply together, if the LLM has set the number."""
        metadata = self.llm.metadata
        return metadata.context_window if "context_window" in metadata.model_fields_set else None

    @property
    def cache_key(self) -> Any:
        """The LLM's own ``cache_key``, by which its answers are stored; None without one."""
        key = getattr(self.llm, "cache_key", None)
        return None if key is None else [key, self._structured_at_first]

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt.

        Raises:
            LLMError: the model refused to answer, or rejected the tool.
        """
        messages = [ChatMessage(role=_ROLES[turn.role], content=turn.text) for turn in prompt.turns]
        if prompt.system:
            role = self.llm.metadata.system_role
            messages.insert(0, ChatMessage(role=role, content=prompt.system))
        calls_tools = isinstance(self.llm, FunctionCallingLLM) and (
            self.llm.metadata.is_function_calling_model
        )
        if self.structured and calls_tools and prompt.schema is not None:
            response = await self._by_tool(messages, prompt.schema)
        else:
            response = await self._call("chat", messages)
        text, reason = response.message.content or "", _finish_reason(response)
        answer = completion(text, reason, _usage(response))
        arguments = self._arguments(response)
        if answer.cut:
            # LLMs close truncated JSON, so its last value may be incomplete. Readers drop the last
            # value of a reply that is not closed.
            arguments = arguments.rstrip("]}")
        return replace(answer, text=arguments) if arguments else answer

    async def _by_tool(
        self, messages: list[ChatMessage], schema: Mapping[str, Any]
    ) -> ChatResponse:
        tool = _tool(schema)
        try:
            return await self._call(
                "chat_with_tools", tools=[tool], chat_history=messages, tool_required=True
            )
        except Exception as error:
            response = error_response(error, [message.content or "" for message in messages])
            if response is None:
                rejected = isinstance(error, TypeError | NotImplementedError | AttributeError)
            else:
                named = any(map(response.blames, ("tools", "functions")))
                rejected = response.blames_format or named
            if not rejected:
                raise
        self.structured = False
        message = "the model does not support the tool; it is asked without one from now on"
        raise LLMError(message, "format_refused", adapted=True)

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> ChatResponse:
        blocks = isinstance(self.llm, CustomLLM | MockLLM)
        asynchronous = None if blocks else getattr(self.llm, f"a{name}")
        method = getattr(self.llm, name)
        response: ChatResponse = await self.call(method, asynchronous, *args, **kwargs)
        return response

    def _arguments(self, response: ChatResponse) -> str:
        """The arguments of the tool call; empty if there is none."""
        if not isinstance(self.llm, FunctionCallingLLM):
            return ""
        try:
            calls = self.llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        except Exception:  # LLMs raise various errors for a response without calls
            return ""
        # Readers reject several values: which call is meant is unknown.
        return "\n".join(json.dumps(call.tool_kwargs) for call in calls if call.tool_kwargs)


class OwnedLLM(SavedByAdapter, LlamaIndexLLM):
    """The LLM of a postprocessor, which is never written into the configuration."""


def _tool(schema: Mapping[str, Any]) -> FunctionTool:
    """A tool with the schema as that of its arguments."""

    class Answer(BaseModel):
        @classmethod
        def model_json_schema(cls, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
            return dict(schema)

    def answer(**arguments: Any) -> dict[str, Any]:
        return arguments

    description = "Takes the answer to the task, in the format that the task asks for."
    return FunctionTool(answer, ToolMetadata(description, name=_TOOL, fn_schema=Answer))


def _finish_reason(response: ChatResponse) -> str | None:
    """Why the model ended, in the provider's words."""
    raw = response.raw
    choices = part(raw, "choices") or part(raw, "candidates")
    first = choices[0] if isinstance(choices, list) and choices else None
    for holder in (first, raw, response.additional_kwargs):
        for name in ("finish_reason", "stop_reason", "done_reason"):
            reason = part(holder, name)
            if reason is not None:
                return str(getattr(reason, "value", reason)).lower()
    return None


def _usage(response: ChatResponse) -> Any:
    for holder in (response.raw, response.message.additional_kwargs, response.additional_kwargs):
        for name in ("usage", "usage_metadata"):
            usage = part(holder, name)
            if usage is not None:
                return usage
    return response.additional_kwargs

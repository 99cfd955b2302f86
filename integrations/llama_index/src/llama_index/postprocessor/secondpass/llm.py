"""Any LlamaIndex LLM as the language model that secondpass asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.llms import LLM, CustomLLM, MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata

from secondpass.adapters.home_loop import ForeignLLM, count, part
from secondpass.concurrency.threads import in_thread
from secondpass.effects import Completion, Prompt
from secondpass.errors import LLMError
from secondpass.services.provider_errors import refusal_of

_TOOL = "answer"
_ROLES = {"user": MessageRole.USER, "assistant": MessageRole.ASSISTANT}


class LlamaIndexLLM(ForeignLLM):
    """Asks an LLM by its chat interface, which completion models have as well.

    Function calling models are given the form of the reply as a tool that they have to call; one
    that can't is asked in words from then on.

    In an event loop its asynchronous interface is awaited there. Otherwise, in another event loop
    than the one that its client lives in, and for LLMs whose asynchronous interface would block the
    loop, the synchronous one is called in a thread.

    Args:
        llm: what is asked.
        timeout: seconds that one answer may take.
        structured: whether to use function calling where the LLM has it.
    """

    def __init__(self, llm: LLM, timeout: float = 60.0, *, structured: bool = True) -> None:
        super().__init__(timeout)
        self.llm = llm
        self.structured = structured

    @property
    def name(self) -> str:
        """The model's name where the LLM tells it, else that of its class."""
        name = self.llm.metadata.model_name
        return name if name and name != "unknown" else type(self.llm).__name__

    @property
    def context_window(self) -> int | None:
        """Tokens that prompt and reply may have together, where the LLM has set it."""
        metadata = self.llm.metadata
        return metadata.context_window if "context_window" in metadata.model_fields_set else None

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask once.

        Raises:
            LLMError: the model refused to answer, or can't be asked in this form.
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
            response = await self._called("chat", messages)
        reason = _finish_reason(response)
        if reason in {"content_filter", "refusal", "safety"}:
            raise LLMError("the model refused to answer", "content_filter")
        usage, cut = _usage(response), reason in {"length", "max_tokens"}
        arguments = self._arguments(response)
        if cut:
            # LLMs close what broke off, so that its last value is part of one. Readers know that
            # of replies that end where they do.
            arguments = arguments.rstrip("]}")
        return Completion(
            arguments or response.message.content or "",
            cut,
            count(usage, "prompt_tokens", "input_tokens", "prompt_token_count"),
            count(usage, "completion_tokens", "output_tokens", "candidates_token_count"),
        )

    async def _by_tool(
        self, messages: list[ChatMessage], schema: Mapping[str, Any]
    ) -> ChatResponse:
        tool = _tool(schema)
        try:
            return await self._called(
                "chat_with_tools", tools=[tool], chat_history=messages, tool_required=True
            )
        except Exception as error:
            refusal = refusal_of(error, [message.content or "" for message in messages])
            if refusal is None:
                refused = isinstance(error, TypeError | NotImplementedError | AttributeError)
            else:
                refused = refusal.of_the_format or any(map(refusal.blames, ("tools", "functions")))
            if not refused:
                raise
        self.structured = False
        told = "the model can't be asked by a tool, so it is asked in words from now on"
        raise LLMError(told, "format_refused", adapted=True)

    async def _called(self, name: str, *args: Any, **kwargs: Any) -> ChatResponse:
        """The result of a method, or of its asynchronous form where that may be awaited here."""
        if isinstance(self.llm, CustomLLM | MockLLM) or not self.home.is_here():
            call = getattr(self.llm, name)
            response: ChatResponse = await in_thread(lambda: call(*args, **kwargs))
        else:
            response = await getattr(self.llm, f"a{name}")(*args, **kwargs)
        return response

    def _arguments(self, response: ChatResponse) -> str:
        """What the tool was called with; nothing where it was not."""
        if not isinstance(self.llm, FunctionCallingLLM):
            return ""
        try:
            calls = self.llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        except Exception:  # of a response without calls, whatever the LLM makes of that
            return ""
        # Of several calls none is known to be meant; readers refuse two values.
        return "\n".join(json.dumps(call.tool_kwargs) for call in calls if call.tool_kwargs)


def _tool(schema: Mapping[str, Any]) -> FunctionTool:
    """A tool whose arguments are what the schema describes."""

    class Answer(BaseModel):
        @classmethod
        def model_json_schema(cls, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
            return dict(schema)

    def answer(**arguments: Any) -> dict[str, Any]:
        return arguments

    told = "Takes the answer to the task, in the form that the task asks for."
    return FunctionTool(answer, ToolMetadata(told, name=_TOOL, fn_schema=Answer))


def _finish_reason(response: ChatResponse) -> str | None:
    """Why the model ended, as providers tell it."""
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

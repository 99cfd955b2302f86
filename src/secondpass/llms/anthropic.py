"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondpass.errors import LLMError
from secondpass.llms.finish_reasons import is_truncated
from secondpass.llms.provider import Form, Provider, joined
from secondpass.llms.usage import token_counts
from secondpass.questions import Completion, Prompt
from secondpass.services.client import Connection
from secondpass.services.http import bounded
from secondpass.settings import configurable

_MAX_TOKENS = 4096  # the API requires a limit in every request


@configurable
class AnthropicMessages(Provider):
    """A model behind Anthropic's Messages API; settings as in :class:`Provider`.

    The key is read from ANTHROPIC_API_KEY unless another variable is named. ``max_tokens`` is 4096
    if it is None.
    """

    package = "anthropic"
    extra = "anthropic"
    key_variables = ("ANTHROPIC_API_KEY",)
    url_variables = ("ANTHROPIC_BASE_URL",)
    sdk_paths = ("/v1/messages", "/v1")
    forms = ("json_schema", "text")

    def _connect(self, key: str) -> Connection:
        import anthropic

        client = anthropic.AsyncAnthropic(
            api_key=key,
            auth_token=None,
            base_url=self._sdk_url,
            max_retries=0,
            timeout=self.timeout,
            http_client=bounded(anthropic.DefaultAsyncHttpxClient, self.timeout),
        )
        return Connection(client, client.close)

    async def _send(self, client: Any, prompt: Prompt, form: Form) -> Completion:
        parameters = self._sent()
        if form == "json_schema":
            output = {"type": "json_schema", "schema": _without_lengths(prompt.schema)}
            parameters["output_config"] = {**parameters.get("output_config", {}), "format": output}
        system = {"system": prompt.system} if prompt.system else {}
        response = await client.messages.create(
            model=self.model,
            max_tokens=self.max_tokens or _MAX_TOKENS,
            messages=[{"role": turn.role, "content": turn.text} for turn in prompt.turns],
            extra_body=parameters,
            **system,
        )
        if not isinstance(getattr(response, "content", None), list):
            raise LLMError("the response has no content", "bad_response")
        if response.stop_reason == "refusal":
            raise LLMError("the model refused to answer", "content_filter")
        return Completion(
            joined(response.content),
            is_truncated(response.stop_reason),
            *token_counts(getattr(response, "usage", None)),
        )


def _without_lengths(schema: Any) -> Any:
    """The schema without array lengths, which the API rejects."""
    if isinstance(schema, list):
        return [_without_lengths(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    lengths = {"minItems", "maxItems"} if schema.get("type") == "array" else set()
    return {key: _without_lengths(part) for key, part in schema.items() if key not in lengths}

"""OpenAI's Chat Completions API, and servers that are compatible with it.

vLLM, Ollama, llama.cpp, Groq and others are reached by ``base_url``. The newer Responses API is not
used: these servers do not support it, or not its output format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secondpass.errors import LLMError
from secondpass.llms.finish_reasons import is_truncated
from secondpass.llms.logprobs import TokenLogprobs, answer_range, token_logprobs
from secondpass.llms.provider import Form, Provider, joined
from secondpass.llms.usage import token_counts
from secondpass.questions import Completion, Prompt
from secondpass.services.client import Connection
from secondpass.services.http import bounded
from secondpass.settings import configurable


@configurable
class OpenAIChat(Provider):
    """A model behind Chat Completions; settings as in :class:`Provider`.

    The key is read from OPENAI_API_KEY unless another variable is named. It is
    optional with a ``base_url``. A server with log probabilities of fewer alternatives than are
    asked for needs ``options: {top_logprobs: NUMBER}``.
    """

    package = "openai"
    extra = "openai"
    key_variables = ("OPENAI_API_KEY",)
    url_variables = ("OPENAI_BASE_URL",)
    sdk_paths = ("/chat/completions",)
    forms = ("json_schema", "json_object", "text")
    has_logprobs = True
    length_names = ("max_completion_tokens", "max_tokens")

    def _connect(self, key: str) -> Connection:
        import openai

        # The SDK moved from httpx to httpx2 and exports its client class under one of these names.
        client_class = getattr(openai, "DefaultAsyncHttpx2Client", openai.DefaultAsyncHttpxClient)
        client = openai.AsyncOpenAI(
            api_key=key,
            base_url=self._sdk_url,
            max_retries=0,
            timeout=self.timeout,
            http_client=bounded(client_class, self.timeout, shorten=_shorten),
        )
        return Connection(client, client.close)

    async def _send(self, client: Any, prompt: Prompt, form: Form) -> Completion:
        messages = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        if prompt.system:
            messages.insert(0, {"role": "system", "content": prompt.system})
        logprobs = {"logprobs": True, "top_logprobs": prompt.logprobs} if prompt.logprobs else {}
        parameters = {**logprobs, **self._short(prompt), **self._sent()}
        if form == "json_schema":
            schema = {"name": "reply", "strict": True, "schema": prompt.schema}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif form == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        response = await client.chat.completions.create(
            model=self.model, messages=messages, extra_body=parameters
        )
        if not getattr(response, "choices", None):
            raise LLMError("the response has no choices", "bad_response")
        choice = response.choices[0]
        if choice.finish_reason == "content_filter" or getattr(choice.message, "refusal", None):
            raise LLMError("the model refused to answer", "content_filter")
        return Completion(
            joined(choice.message.content),
            is_truncated(choice.finish_reason),
            *token_counts(getattr(response, "usage", None)),
            _logprobs(getattr(choice, "logprobs", None)) if prompt.logprobs else None,
        )


def _logprobs(reported: Any) -> TokenLogprobs | None:
    """Those of the reply's tokens; some servers report them as the older Completions API did."""
    if isinstance(content := getattr(reported, "content", None), list):
        rows = []
        for token in content:
            alternatives = getattr(token, "top_logprobs", None) or []
            rows.append((_entry(token), [_entry(other) for other in alternatives]))
        return token_logprobs(rows)
    texts = getattr(reported, "tokens", None)
    logprobs = getattr(reported, "token_logprobs", None)
    top = getattr(reported, "top_logprobs", None)
    if not isinstance(texts, list) or not isinstance(logprobs, list) or not isinstance(top, list):
        return None
    rows = []
    for text, logprob, others in zip(texts, logprobs, top, strict=False):
        alternatives = list(others.items()) if isinstance(others, Mapping) else []
        rows.append(((text, logprob), alternatives))
    return token_logprobs(rows)


def _shorten(body: Any) -> None:
    """Keep the log probabilities of the first tokens of each answer; the rest is never read."""
    for choice in body["choices"]:
        reported = choice["logprobs"]
        if isinstance(content := reported.get("content"), list):
            texts = [token["token"] for token in content]
            start, end = answer_range(texts)
            thinking = {"token": "".join(texts[:start]), "logprob": 0.0, "top_logprobs": []}
            reported["content"] = [thinking, *content[start:end]]
        else:
            start, end = answer_range(reported["tokens"])
            thinking = {"tokens": "".join(reported["tokens"][:start]), "token_logprobs": 0.0}
            for name in ("tokens", "token_logprobs", "top_logprobs"):
                reported[name] = [thinking.get(name), *reported[name][start:end]]
            reported.pop("text_offset", None)


def _entry(token: Any) -> tuple[Any, Any]:
    return getattr(token, "token", None), getattr(token, "logprob", None)

"""Google's Gemini API."""

from __future__ import annotations

from typing import Any

from secondpass.errors import LLMError
from secondpass.llms.finish_reasons import is_truncated
from secondpass.llms.logprobs import TokenLogprobs, answer_range, token_logprobs
from secondpass.llms.provider import Form, Provider
from secondpass.llms.usage import token_counts
from secondpass.questions import Completion, Prompt
from secondpass.services.client import Connection
from secondpass.services.http import bounded
from secondpass.settings import configurable

_BLOCKED = frozenset({"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"})


@configurable
class GoogleGenAI(Provider):
    """A Gemini model; settings as in :class:`Provider`.

    The key is read from GOOGLE_API_KEY or GEMINI_API_KEY unless another variable is named.
    ``options`` are fields of the SDK's ``GenerateContentConfig``, in its spelling.
    """

    package = "google.genai"
    extra = "google"
    key_variables = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    url_variables = ("GOOGLE_GEMINI_BASE_URL",)
    sdk_paths = (
        "/v1beta/models/$model:generateContent",
        "/v1/models/$model:generateContent",
        "/v1beta",
        "/v1",
    )
    forms = ("json_schema", "json_object", "text")
    has_logprobs = True
    length_names = ("max_output_tokens",)

    def _connect(self, key: str) -> Connection:
        from google import genai

        try:
            import httpx2 as httpx
        except ImportError:
            import httpx  # type: ignore[no-redef]
        http_client = bounded(httpx.AsyncClient, self.timeout, shorten=_shorten)
        client = genai.Client(
            api_key=key,
            vertexai=False,
            http_options=genai.types.HttpOptions(
                base_url=self._sdk_url,
                timeout=max(1, round(self.timeout * 1000)),
                httpx_async_client=http_client,
                retry_options=genai.types.HttpRetryOptions(attempts=1),
            ),
        )

        async def close() -> None:
            try:
                client.close()
            finally:
                await http_client.aclose()

        return Connection(client, close)

    async def _send(self, client: Any, prompt: Prompt, form: Form) -> Completion:
        from google.genai import types

        config: dict[str, Any] = {}
        if prompt.logprobs:
            config = {"response_logprobs": True, "logprobs": prompt.logprobs}
        config |= {**self._short(prompt), **self._sent()}
        if prompt.system:
            config["system_instruction"] = prompt.system
        if form != "text":
            config["response_mime_type"] = "application/json"
        if form == "json_schema":
            config["response_json_schema"] = dict(prompt.schema or {})
        roles = {"user": "user", "assistant": "model"}
        response = await client.aio.models.generate_content(
            model=self.model,
            contents=[
                types.Content(role=roles[turn.role], parts=[types.Part(text=turn.text)])
                for turn in prompt.turns
            ],
            config=types.GenerateContentConfig(**config),
        )
        if getattr(getattr(response, "prompt_feedback", None), "block_reason", None):
            raise LLMError("the prompt was blocked", "content_filter")
        if not response.candidates:
            raise LLMError("the response has no candidates", "bad_response")
        first = response.candidates[0]
        reason = getattr(first.finish_reason, "value", None)
        if reason in _BLOCKED:
            raise LLMError("the model refused to answer", "content_filter")
        parts = (first.content.parts if first.content else None) or []
        return Completion(
            "".join(part.text for part in parts if part.text and not part.thought),
            is_truncated(reason),
            *token_counts(response.usage_metadata),
            _logprobs(getattr(first, "logprobs_result", None)) if prompt.logprobs else None,
        )


def _logprobs(reported: Any) -> TokenLogprobs | None:
    chosen = getattr(reported, "chosen_candidates", None)
    top = getattr(reported, "top_candidates", None)
    if not chosen or not top or len(chosen) != len(top):
        return None
    rows = []
    for token, alternatives in zip(chosen, top, strict=True):
        rows.append((_entry(token), [_entry(other) for other in alternatives.candidates or []]))
    return token_logprobs(rows)


def _shorten(body: Any) -> None:
    """Keep the log probabilities of the first tokens of each answer; the rest is never read."""
    for candidate in body["candidates"]:
        reported = candidate["logprobsResult"]
        chosen, top = reported["chosenCandidates"], reported["topCandidates"]
        texts = [token["token"] for token in chosen]
        start, end = answer_range(texts)
        thinking = {"token": "".join(texts[:start]), "logProbability": 0.0}
        reported["chosenCandidates"] = [thinking, *chosen[start:end]]
        reported["topCandidates"] = [{"candidates": []}, *top[start:end]]


def _entry(token: Any) -> tuple[Any, Any]:
    return token.token, token.log_probability

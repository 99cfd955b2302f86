"""Errors by status, in the words of each API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fake_provider.replies import INPUT_TOKENS
from fake_provider.requests import Request, Step, Wire
from fake_provider.steps import by_api, changed, http

LEAK = "the request was: "
"""Stands before the key and the passages that errors of this provider repeat, as real ones do."""


def status(
    code: int,
    message: str = "it cannot be done",
    *,
    headers: Mapping[str, str] | None = None,
    kind: str | None = None,
    error_code: str | None = None,
    leak: bool = True,
    **members: Any,
) -> Step:
    """An error in the words of the API that was asked.

    Args:
        code: the HTTP status.
        message: for people.
        headers: besides the usual ones.
        kind: the error's ``type`` (``status`` for Google) instead of the usual one.
        error_code: the error's ``code``, where the dialect has one.
        leak: repeat the key and the passages in the message.
        members: further members of the error.
    """

    def step(request: Request) -> Iterator[Wire]:
        text = message
        if leak:
            text += f" ({LEAK}key {request.key}, {' '.join(request.documents.values())})"
        yield http(code, _error(request, code, text, kind, error_code, members), headers)

    return step


def _error(
    request: Request,
    code: int,
    message: str,
    kind: str | None,
    error_code: str | None,
    members: Mapping[str, Any],
) -> Any:
    openai, anthropic, google = _KINDS.get(code, ("server_error", "api_error", "UNKNOWN"))
    if request.api == "anthropic":
        error = {"type": kind or anthropic, "message": message, **members}
        return {"type": "error", "error": error, "request_id": "req_1"}
    if request.api == "google":
        return {"error": {"code": code, "message": message, "status": kind or google, **members}}
    if request.api == "cohere":
        return {"id": "r1", "message": message, **members}
    if request.api == "tei":
        return {"error": message, "error_type": kind or "validation", **members}
    if request.api == "jina":
        return {"detail": message, **members}
    if request.flavour == "compatible":
        # As vLLM says it; a number in "code", and no "error" around.
        named = kind or "BadRequestError"
        return {"object": "error", "message": message, "type": named, "param": None, "code": code}
    error = {
        "message": message,
        "type": kind or openai,
        "param": None,
        "code": error_code,
        **members,
    }
    return {"error": error}


_KINDS = {
    # of OpenAI, Anthropic and Google
    400: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    401: ("invalid_request_error", "authentication_error", "UNAUTHENTICATED"),
    402: ("server_error", "billing_error", "UNKNOWN"),
    403: ("permission_error", "permission_error", "PERMISSION_DENIED"),
    404: ("invalid_request_error", "not_found_error", "NOT_FOUND"),
    409: ("server_error", "conflict_error", "ABORTED"),
    413: ("server_error", "request_too_large", "UNKNOWN"),
    422: ("invalid_request_error", "invalid_request_error", "UNKNOWN"),
    429: ("requests", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    500: ("server_error", "api_error", "INTERNAL"),
    503: ("server_error", "api_error", "UNAVAILABLE"),
    504: ("server_error", "timeout_error", "DEADLINE_EXCEEDED"),
    529: ("server_error", "overloaded_error", "UNKNOWN"),
}


def schema_refused() -> Step:
    """400, as servers say that they take no JSON schema."""
    return by_api(
        openai=status(
            400,
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported "
            "with this model.",
            param="response_format",
        ),
        anthropic=status(400, "output_config: Extra inputs are not permitted"),
        google=status(
            400,
            'Invalid JSON payload received. Unknown name "responseJsonSchema" at '
            "'generation_config': Cannot find field.",
        ),
        other=status(400, "response_format.type: Input should be 'text' or 'json_object'"),
    )


def json_refused() -> Step:
    """400, as servers say that they take no ``response_format`` or MIME type at all."""
    return by_api(
        google=status(400, "JSON mode is not enabled for this model"),
        anthropic=status(400, "output_config: Extra inputs are not permitted"),
        other=status(
            400, "Unsupported parameter: 'response_format'", error_code="unsupported_parameter"
        ),
    )


def temperature_refused() -> Step:
    """400, as providers say that this model takes no temperature."""
    return by_api(
        anthropic=status(400, "`temperature` is deprecated for this model."),
        google=status(400, "Unable to submit request because temperature is not supported"),
        other=status(
            400,
            "Unsupported value: 'temperature' does not support 0.0 with this model. Only the "
            "default (1) value is supported.",
            error_code="unsupported_value",
            param="temperature",
        ),
    )


def has_temperature(request: Request) -> bool:
    """Whether a request sets the temperature."""
    body = request.body
    return "temperature" in body or "temperature" in (body.get("generationConfig") or {})


TOO_LONG_ELSEWHERE = {
    "llama.cpp": (
        400,
        "the request exceeds the available context size. try increasing the context size",
    ),
    "vLLM": (
        400,
        "This model's maximum context length is 2048 tokens. However, you requested 4000 tokens "
        "(2000 in the messages, 2000 in the completion).",
    ),
    "Groq": (413, "Request too large for model `m` on tokens per minute (TPM): Limit 6000"),
    "LiteLLM": (400, "litellm.ContextWindowExceededError: input is too long for requested model"),
    "Ollama": (400, "input length exceeds the context length"),
}
"""How servers that speak OpenAI's dialect word it."""


def too_long() -> Step:
    """The prompt does not fit, in each provider's words."""
    return by_api(
        openai=status(
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9210 tokens. Please reduce the length of the messages.",
            error_code="context_length_exceeded",
        ),
        compatible=status(
            400,
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum "
            "context length is 2048 tokens and your request has 1990 input tokens",
        ),
        anthropic=status(400, "prompt is too long: 210344 tokens > 200000 maximum"),
        google=status(
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
    )


def quota_used_up() -> Step:
    """No money left, which waiting does not help."""
    return by_api(
        openai=status(
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            kind="insufficient_quota",
            error_code="insufficient_quota",
        ),
        compatible=status(429, "insufficient_quota: buy more", kind="insufficient_quota"),
        anthropic=status(
            400, "Your credit balance is too low to access the Anthropic API. Go to Plans & Billing"
        ),
        google=status(
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            details=[
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
                }
            ],
        ),
    )


def content_filtered() -> Step:
    """A filter of the provider keeps the answer back."""
    return by_api(
        anthropic=refused(),
        google=changed(
            lambda reply: reply["candidates"][0].update(finishReason="SAFETY", content={})
        ),
        other=changed(
            lambda reply: reply["choices"][0].update(
                finish_reason="content_filter", message={"role": "assistant", "content": None}
            )
        ),
    )


def prompt_blocked() -> Step:
    """A filter of the provider keeps the prompt from the model."""
    return by_api(
        anthropic=status(400, "Output blocked by content filtering policy"),
        google=lambda request: [
            http(
                200,
                {
                    "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                    "usageMetadata": {"promptTokenCount": INPUT_TOKENS},
                },
            )
        ],
        other=status(
            400,
            "The response was filtered due to the prompt triggering the content management policy.",
            error_code="content_filter",
            kind="content_filter",
        ),
    )


def refused() -> Step:
    """The model declines to answer."""
    return by_api(
        anthropic=changed(
            lambda reply: reply.update(
                stop_reason="refusal", content=[{"type": "text", "text": "I can't help with 5."}]
            )
        ),
        google=changed(
            lambda reply: reply["candidates"][0].update(
                finishReason="PROHIBITED_CONTENT", content={}
            )
        ),
        other=changed(
            lambda reply: reply["choices"][0].update(
                message={"role": "assistant", "content": None, "refusal": "I can't help with 5."}
            )
        ),
    )


def logprobs_refused() -> Step:
    """An error, as providers say that this model has no log probabilities."""
    return by_api(
        google=status(400, "Logprobs is not enabled for models/m"),
        compatible=status(
            400, "Requested sample logprobs of 20, which is greater than max allowed: 5"
        ),
        other=status(403, "You are not allowed to request logprobs from this model."),
    )

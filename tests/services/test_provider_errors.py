"""What exceptions of SDKs and functions mean."""

import email.utils
import json
import ssl
import time
from types import SimpleNamespace

import pytest

from secondpass.services.http import ResponseTooLongError
from secondpass.services.provider_errors import (
    error_response,
    retry_after,
    to_llm_error,
    transport_error,
)


class StatusError(Exception):
    """An error of an SDK of OpenAI's kind."""

    def __init__(self, status, body=None, message=""):
        super().__init__("sk-secret-key and a passage")
        self.status_code = status
        self.body = body
        self.message = message
        self.response = SimpleNamespace(headers={})


def body(**fields):
    return {"error": fields}


TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "the request exceeds the available context size. try increasing the context size",
    "Please reduce the length of the messages",
    "string_above_max_length",
]

STATUS = [
    # status, what the body says -> code, retryable
    (400, "no such thing", "bad_request", False),
    (401, "", "authentication", False),
    (402, "", "payment", False),
    (403, "", "authentication", False),
    (404, "the model does not exist", "not_found", False),
    (408, "", "timeout", True),
    (409, "", "conflict", True),
    (413, "", "too_long", False),
    (418, "", "bad_request", False),
    (422, "no such thing", "bad_request", False),
    (429, "slow down", "rate_limited", True),
    (429, "insufficient_quota", "quota", False),
    (429, "You exceeded your current quota, please check your plan and billing", "quota", False),
    (400, "Your credit balance is too low to access the API", "quota", False),
    (400, "API key not valid. Please pass a valid API key.", "authentication", False),
    (400, "The response was filtered by the content management policy", "content_filter", False),
    (500, "", "server_error", True),
    (501, "", "bad_request", False),
    (503, "", "server_error", True),
    (599, "", "server_error", True),
    (301, "", "redirected", False),
    *((400, told, "too_long", False) for told in TOO_LONG),
    *((422, told, "too_long", False) for told in TOO_LONG[:2]),
]


@pytest.mark.parametrize(("status", "told", "code", "retryable"), STATUS)
def test_statuses(status, told, code, retryable):
    for error in (
        StatusError(status, body(message=told)),
        StatusError(status, json.dumps(body(message=told))),
        StatusError(status, None, told),
    ):
        fault = error_response(error).error()
        assert (fault.code, fault.retryable) == (code, retryable)
        assert fault.too_long == (code == "too_long")
        assert str(status) in str(fault)
        assert "secret" not in str(fault)
        assert not told or told not in str(fault)


@pytest.mark.parametrize("status", [None, "400", 200, 299, 600, 1000, True, 400.0])
def test_other_statuses(status):
    assert error_response(StatusError(status)) is None


def test_status_of_other_sdks():
    error = Exception("secret")
    error.code = 429
    error.details = {"error": {"details": [{"retryDelay": "7.5s"}]}}
    refusal = error_response(error)
    assert (refusal.status, refusal.retry_after) == (429, 7.5)
    assert refusal.error().retry_after == 7.5


def test_rate_limit_of_google():
    told = "You exceeded your current quota, please check your plan and billing details"
    error = StatusError(429, {"error": {"message": told, "details": [{"retryDelay": "3s"}]}})
    fault = error_response(error).error()
    assert (fault.code, fault.retryable, fault.retry_after) == ("rate_limited", True, 3.0)


BLAMED = [
    (400, {"param": "temperature"}, "temperature", True),
    (400, {"param": "generation.temperature"}, "temperature", True),
    (400, {"param": "top_p", "message": "temperature"}, "temperature", False),
    (400, {"message": "Unsupported parameter: 'temperature'"}, "temperature", True),
    (422, {"message": "temperature: not here"}, "temperature", True),
    (400, {"message": "temperatures"}, "temperature", False),
    (400, {"message": "max_completion_tokens"}, "max_tokens", False),
    (400, {"param": None, "message": "max_tokens is too large"}, "max_tokens", True),
    (429, {"message": "temperature"}, "temperature", False),
    (500, {"param": "temperature"}, "temperature", False),
    (400, {"message": "api key for temperature"}, "temperature", False),
]


@pytest.mark.parametrize(("status", "told", "name", "blamed"), BLAMED)
def test_which_parameter_is_blamed(status, told, name, blamed):
    assert error_response(StatusError(status, told)).blames(name) == blamed


FORMATS = [
    (400, {"param": "response_format"}, True),
    (400, {"message": "'response_format' of type 'json_schema' is not supported"}, True),
    (422, {"message": "output_config: no"}, True),
    (400, {"message": "Invalid JSON Schema"}, True),
    (400, {"message": "grammar too complex"}, True),
    (400, {"message": "'claude' does not support output format."}, True),
    (400, {"message": "Unsupported response format"}, True),
    (400, {"message": "Unsupported response mime type"}, True),
    (400, {"message": "something else"}, False),
    (400, {"message": "image format not supported"}, False),
    (401, {"message": "response_format"}, False),
    (500, {"message": "response_format"}, False),
    (400, {"message": "insufficient_quota response_format"}, False),
]


@pytest.mark.parametrize(("status", "told", "of_the_format"), FORMATS)
def test_whether_the_format_is_blamed(status, told, of_the_format):
    assert error_response(StatusError(status, told)).blames_format == of_the_format


def date(seconds):
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


AFTER = [
    ({}, None),
    ({"retry-after": "7"}, 7),
    ({"retry-after": "0"}, 0),
    ({"retry-after-ms": "1500"}, 1.5),
    ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
    ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
    ({"retry-after": "1" + "0" * 300}, 1e300),
    ({"retry-after": "-5"}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": ""}, None),
    ({"retry-after": "Wed, 99 Foo 2099 00:00:00 GMT"}, None),
    ({"retry-after": date(-100)}, 0),
    ({"ratelimit-remaining": "0", "ratelimit-reset": "7"}, 7),
    ({"ratelimit-remaining": "0", "ratelimit-reset": "360"}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), AFTER)
def test_how_long_to_wait(headers, seconds):
    assert retry_after(headers) == seconds


def test_a_date_is_so_many_seconds_from_now():
    assert retry_after({"retry-after": date(30)}) == pytest.approx(30, abs=5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ('"retryDelay": "34s"', 34),
        ('{"retryDelay":"0.5s"}', 0.5),
        ('"retryDelay": "12345678901s"', None),
        ("try again in 3 seconds", None),
    ],
)
def test_how_long_to_wait_by_the_body(text, seconds):
    assert retry_after({}, text) == seconds


class TimeoutException(Exception):  # noqa: N818 - as httpx names it
    pass


class TransportError(Exception):
    pass


class DecodingError(TransportError):
    pass


class APITimeoutError(Exception):
    pass


def caused(error, cause):
    error.__cause__ = cause
    return error


def circular():
    one, other = Exception("one"), Exception("other")
    one.__cause__, other.__cause__ = other, one
    return one


ERRORS = [
    (TimeoutException("secret"), "timeout", True),
    (APITimeoutError("secret"), "timeout", True),
    (TimeoutError("secret"), "timeout", True),
    (TransportError("secret"), "connection", True),
    (ConnectionResetError("secret"), "connection", True),
    (caused(Exception("secret"), TransportError("secret")), "connection", True),
    (caused(Exception("secret"), TimeoutException("secret")), "timeout", True),
    (DecodingError("secret"), "bad_response", False),
    (ssl.SSLCertVerificationError("secret"), "connection", False),
    (caused(TransportError("secret"), ssl.SSLError("secret")), "connection", False),
    (ResponseTooLongError("secret"), "response_too_long", False),
    (caused(TransportError("x"), ResponseTooLongError("secret")), "response_too_long", False),
    (json.JSONDecodeError("secret", "doc", 0), "bad_response", False),
    (AttributeError("secret"), "bad_response", False),
    (circular(), "bad_response", False),
]


@pytest.mark.parametrize(("error", "code", "retryable"), ERRORS, ids=lambda one: repr(one)[:30])
def test_errors_without_a_response(error, code, retryable):
    fault = transport_error(error)
    assert (fault.code, fault.retryable) == (code, retryable)
    assert "secret" not in str(fault)
    assert fault.__cause__ is None
    assert fault.__context__ is None


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ValueError("secret"), "llm_raised", "the model raised ValueError"),
        (StatusError(429), "rate_limited", "rate limit exceeded (status 429)"),
        (StatusError(401), "authentication", "authentication failed (status 401)"),
        (ConnectionResetError("secret"), "connection", "connection failed"),
        (TimeoutError("secret"), "timeout", "request timed out"),
    ],
)
def test_what_a_function_raises_is_translated(error, code, told):
    fault = to_llm_error(error)
    assert (fault.code, str(fault)) == (code, told)


def test_odd_bodies():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    for odd in (nested, object(), b"bytes", 7, [], {1: 2}, "x" * 10**6, {"param": 7}):
        refusal = error_response(StatusError(400, odd))
        assert refusal.error().code == "bad_request"
        assert len(refusal.text) <= 20_000
    # Taking such a list apart goes as deep as it is, so it is done by hand.
    while nested:
        nested = nested.pop()


@pytest.mark.parametrize(
    "text",
    [
        "None of the following variables are set: ('OPENAI_API_KEY',)",
        "Missing credentials. Pass an `api_key`, or set the OPENAI_API_KEY environment variable.",
    ],
)
def test_the_variable_of_a_key_that_is_not_set_is_named(monkeypatch, text):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    message = "the model raised ValueError; it names the variable OPENAI_API_KEY, which is not set"
    assert str(to_llm_error(ValueError(f"{text} sk-SECRET_API_KEYS"))) == message
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert str(to_llm_error(ValueError(text))) == "the model raised ValueError"

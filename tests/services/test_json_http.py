"""JSON over plain HTTP."""

import asyncio
import math

import httpx
import pytest

from secondpass.services.client import NO_KEY
from secondpass.services.json_http import INVALID, StatusError, connect, parse_json


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": [1, null]}', {"a": [1, None]}), ("5", 5), ("[Infinity, -Infinity]", None)],
)
def test_values(text, value):
    read = parse_json(text)
    if value is None:
        assert all(math.isnan(number) for number in read)
    else:
        assert read == value


@pytest.mark.parametrize("text", ["", "no", "{'a': 1}", "[1", "[" * 100_000, "1 2"], ids=ascii)
def test_texts_that_are_not_json(text):
    assert parse_json(text[:200_000]) is INVALID


@pytest.mark.parametrize(
    ("text", "body"),
    [('{"error": "no"}', {"error": "no"}), ("[1]", "[1]"), ("plain", "plain"), ("", "")],
)
def test_the_body_of_an_error(text, body):
    error = StatusError(httpx.Response(429, text=text))
    assert (error.status_code, error.body, str(error)) == (429, body, "429")


@pytest.mark.parametrize(("key", "header"), [("sk-1", "Bearer sk-1"), (NO_KEY, None)])
def test_the_key_is_a_bearer_token(key, header):
    connection = connect(key, 5.0)
    try:
        assert connection.client.headers.get("authorization") == header
        assert connection.client.timeout.read == 5.0
    finally:
        asyncio.run(connection.close())
    assert connection.client.is_closed

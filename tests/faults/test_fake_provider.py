"""The fake provider itself. That the SDKs read its replies is seen in the tests of faults."""

import gc
import json
import socket
import threading
import urllib.error
import urllib.request
import warnings

import pytest

import fake_provider as fake
from fake_provider import FakeProvider
from raw_http import until


def post(url, body):
    """What the standard library makes of a reply: status and JSON."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_script(provider):
    provider.play(fake.status(500), fake.status(429), fake.good())
    url = provider.base_url("openai") + "/chat/completions"
    assert [post(url, {"messages": []})[0] for _ in range(4)] == [500, 429, 200, 200]
    assert [request.number for request in provider.requests] == [0, 1, 2, 3]
    assert provider.calls == 4
    assert provider.most_at_once == 1
    assert post(provider.base_url("openai") + "/unknown", {})[0] == 404


def test_schemaless_server():
    with FakeProvider(schemaless=["compatible"]) as provider:
        wanted = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
        url = provider.base_url("compatible") + "/chat/completions"
        assert post(url, {"messages": [], "response_format": wanted})[0] == 400
        assert post(url, {"messages": [], "response_format": {"type": "json_object"}})[0] == 200
        assert (provider.schemas_refused, len(provider.requests), provider.calls) == (1, 1, 2)


@pytest.mark.parametrize("tls", ["close", "garbage", "silence"])
def test_handshakes_are_not_requests(tls):
    import ssl

    with FakeProvider(tls=tls) as provider:
        with socket.create_connection(("127.0.0.1", provider.port), timeout=60) as plain:
            context = ssl.create_default_context()
            context.check_hostname = False
            if tls == "silence":
                plain.settimeout(0.2)
            with pytest.raises(OSError):  # noqa: PT011 - SSLError, reset or timeout
                context.wrap_socket(plain)
            until(lambda: provider.handshakes)
        assert (provider.handshakes, provider.calls) == (1, 0)


def test_close():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = threading.active_count()
        with FakeProvider(fake.silence()) as provider:
            silent = socket.create_connection(("127.0.0.1", provider.port))
            asked = socket.create_connection(("127.0.0.1", provider.port))
            asked.sendall(b"POST /openai/v1/chat/completions HTTP/1.1\r\n\r\n")
            until(lambda: provider.requests)
        assert threading.active_count() == before
        silent.close()
        asked.close()
        gc.collect()

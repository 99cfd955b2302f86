"""The base class of clients: keys, texts of errors, connections. No SDK and no server."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from interrupts import Interrupting
from secondpass.concurrency.portal import portal
from secondpass.errors import ConfigurationError, LLMError, MissingExtraError
from secondpass.questions import Completion
from secondpass.services import client as module
from secondpass.services.client import NO_KEY, Client, Connection, token_count
from secondpass.services.throttle import throttle_of
from secondpass.settings import OptionalVariables, Secret

KEY = "sk-secret-key"


class Echo(Client[str]):
    """Answers with the request, or raises it."""

    package = "json"
    extra = "echo"
    key_variables = ("ECHO_KEY", "OTHER_KEY")

    def __init__(self, model="m", base_url=None, api_key=None, api_key_env=None, options=None):
        self.model = model
        self.base_url = base_url
        self.api_key = Secret(api_key) if api_key else None
        self.api_key_env = api_key_env
        self.options = options
        self.timeout = 5.0
        self.keys = []
        self.closed = []
        self._prepare()

    def _connect(self, key):
        assert threading.current_thread() is not threading.main_thread()  # importing takes a second
        self.keys.append(key)

        async def close():
            self.closed.append(key)

        return Connection(key, close)

    def _texts(self, request):
        return [str(request)]

    async def _answer(self, client, request, sent):
        self.sent = sent
        assert client == self.keys[-1]
        if isinstance(request, Exception):
            raise request
        return Completion(request)


class Status(Exception):  # noqa: N818
    def __init__(self, status, url=None, body=None):
        self.status_code = status
        self.body = body
        if url:
            self.request = type("Request", (), {"url": url})()


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("ECHO_KEY", KEY)
    monkeypatch.delenv("OTHER_KEY", raising=False)


def ask(client, request="hello"):
    return asyncio.run(client.complete(request))


def error_of(client, request="hello"):
    with pytest.raises(LLMError) as caught:
        ask(client, request)
    assert KEY not in str(caught.value)
    return caught.value


# ---------------------------------------------------------------------- origin

ORIGINS = {
    # settings; the end of messages
    "variable": ({}, "[model m, key of ECHO_KEY]"),
    "given key": ({"api_key": "other"}, "[model m, key of api_key]"),
    "named variable": ({"api_key_env": "MINE"}, "[model m, key of MINE]"),
    "second variable": ({"api_key_env": ["NONE", "MINE"]}, "[model m, key of MINE]"),
    "address": ({"base_url": "http://h/v1?x=1"}, "[http://h/v1, model m, key of ECHO_KEY]"),
    "no key": (
        {"base_url": "http://h", "api_key_env": OptionalVariables(["NONE"])},
        "[http://h, model m, no key]",
    ),
    "host called none": (
        {"base_url": "http://none/v1", "api_key_env": OptionalVariables(["NONE"])},
        "[http://none/v1, model m, no key]",
    ),
    "key in the address": ({"base_url": f"http://h/{KEY}/v1"}, "[model m, key of ECHO_KEY]"),
    "no name": ({"model": None}, "[model Echo, key of ECHO_KEY]"),
}


@pytest.mark.parametrize("name", ORIGINS)
def test_origin(name, monkeypatch):
    settings, origin = ORIGINS[name]
    monkeypatch.setenv("MINE", "my-key")
    client = Echo(**settings)
    assert client.origin == origin
    error = error_of(client, ValueError(f"{KEY} and a passage"))
    assert str(error) == f"unexpected response (ValueError) {origin}"
    assert str(error_of(client, LLMError("no reply", "bad_response"))) == f"no reply {origin}"


def test_origin_without_a_key():
    assert Echo(api_key_env="NONE").origin == ""


def test_each_key_has_a_rate_of_its_own():
    first, second = Echo(api_key=KEY), Echo(api_key="another")
    assert first.origin == second.origin
    assert throttle_of(first) is throttle_of(Echo(api_key=KEY)) is not throttle_of(second)
    assert throttle_of(first) is throttle_of(Echo(api_key_env="ECHO_KEY"))
    assert throttle_of(first) is not throttle_of(Echo("another model", api_key=KEY))
    assert throttle_of(first) is not throttle_of(Echo(base_url="http://another", api_key=KEY))
    assert throttle_of(Echo(api_key_env="NONE")) is not throttle_of(Echo(api_key_env="NONE"))


def test_address_of_the_request():
    client = Echo(base_url="http://h/v1")
    error = error_of(client, Status(500, "https://user:pw@other/path?key=1"))
    assert str(error) == "server error (status 500) [https://other/path, model m, key of ECHO_KEY]"
    assert error.retryable


def test_repr():
    assert repr(Echo()) == "<Echo 'm'>"


# ---------------------------------------------------------------------- keys


def refused(source):
    message = f"the key in {source} has a character that HTTP headers do not allow"
    return "invalid_key", message


def missing(names):
    return "no_key", f"no API key: set the environment variable {names}"


OPTIONAL = OptionalVariables(["MINE"])
KEYS = {
    # settings, environment; the key, or the error's code and message
    "usual": ({}, {}, KEY),
    "second": ({}, {"ECHO_KEY": " ", "OTHER_KEY": "b"}, "b"),
    "edges of ASCII": ({"api_key": "a ~"}, {}, "a ~"),
    "control": ({"api_key": "a\x1f"}, {}, refused("api_key")),
    "line break": ({}, {"ECHO_KEY": "a\r\nX: b"}, refused("ECHO_KEY")),
    "not ASCII": ({"api_key": "ключ"}, {}, refused("api_key")),
    "delete": ({}, {"ECHO_KEY": "a\x7fb"}, refused("ECHO_KEY")),
    "source": ({}, {"ECHO_KEY": "", "OTHER_KEY": "a\x7fb"}, refused("OTHER_KEY")),
    "none": ({}, {"ECHO_KEY": ""}, missing("ECHO_KEY or OTHER_KEY")),
    "named": ({"api_key_env": "MINE", "base_url": "http://h"}, {}, missing("MINE")),
    "self-hosted": ({"base_url": "http://h"}, {"ECHO_KEY": ""}, NO_KEY),
    "optional": ({"base_url": "http://h", "api_key_env": OPTIONAL}, {}, NO_KEY),
    "optional, hosted": ({"api_key_env": OPTIONAL}, {}, missing("MINE")),
}


@pytest.mark.parametrize("name", KEYS)
def test_key(name, monkeypatch):
    settings, environment, expected = KEYS[name]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    client = Echo(**settings)
    if isinstance(expected, str):
        assert ask(client).text == "hello"
        assert client.keys == [expected]
        client.close()
        return
    error = error_of(client)
    assert (error.code, str(error), error.sent) == (*expected, False)
    assert client.keys == []


@pytest.mark.parametrize("status", [401, 403])
def test_circuit(status):
    client = Echo(base_url="http://h/v1")
    assert error_of(client, Status(status)).code == "authentication"
    error = error_of(client)
    assert (error.code, error.sent, error.retryable) == ("circuit_open", False, False)
    assert str(error) == (
        "not sent: the key was refused less than a minute ago "
        "[http://h/v1, model m, key of ECHO_KEY]"
    )


def test_circuit_closes(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    client = Echo()
    error_of(client, Status(401))
    now[0] += 59.9
    assert error_of(client).code == "circuit_open"
    now[0] = 1060.0
    assert [ask(client).text, ask(client).text] == ["hello", "hello"]


def test_other_errors_open_no_circuit():
    client = Echo()
    # Whose text says that the key is refused, but may be that of a passage.
    doubtful = Status(400, body={"message": "API key not valid. Please pass a valid API key."})
    for request in (doubtful, Status(429), ValueError(), LLMError("no", "bad_response")):
        error_of(client, request)
    assert ask(client).text == "hello"


# ---------------------------------------------------------------------- what was sent

PRIVATE = {
    # settings; texts that count as sent
    "key": ({"api_key": "abcd-efgh"}, ["abcd-efgh"]),
    "query of the address": ({"base_url": "http://h/v1?k=abcdefgh"}, ["abcdefgh", KEY]),
    "option": ({"options": {"user": ["a person of this name"]}}, ["a person of this name"]),
    "request": ({}, ["hello, long request"]),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_sent(name):
    settings, texts = PRIVATE[name]
    client = Echo(**settings)
    ask(client, "hello, long request")
    assert all(client.sent.holds_part_of(text) for text in texts)
    assert not client.sent.holds_part_of("something else entirely")


def test_no_key_is_no_secret():
    client = Echo(base_url="http://h", api_key_env=OptionalVariables(["NONE"]))
    ask(client)
    assert not client.sent.holds_secret("there is none")


# ---------------------------------------------------------------------- connections


def test_connection_is_reused_and_closed(monkeypatch):
    client = Echo()
    ask(client)
    ask(client)
    assert client.keys == [KEY]
    waited = []
    run = portal().run

    def ran(work, seconds):
        waited.append(seconds)
        return run(work, seconds)

    monkeypatch.setattr(portal(), "run", ran)
    client.close()
    client.close()
    assert (client.closed, waited) == ([KEY], [5.0])
    assert not client._finalizer.alive


def test_closing_may_be_interrupted_at_any_place():
    client = Echo()
    place, interrupted = 0, True
    with ThreadPoolExecutor(1) as others:
        while interrupted:
            others.submit(ask, client).result(60)
            with Interrupting(place) as interrupting:
                client.close()
            interrupted = interrupting.raised
            place += 1
        others.submit(ask, client).result(60)
    assert place > 30
    client.close()


def test_changed_key(monkeypatch):
    client = Echo()
    ask(client)
    monkeypatch.setenv("ECHO_KEY", "second")
    ask(client)
    assert client.keys == [KEY, "second"]
    client.close()
    assert client.closed == [KEY, "second"]


def test_connection_of_a_fork():
    closed = []

    async def close():
        closed.append(True)

    class Other:
        process = os.getpid() + 1

        def work(self, create):
            closed.append(create)

    module._close(Other(), Connection(None, lambda: closed.append(True)))
    assert closed == []
    module._close(portal(), Connection(None, close))
    portal().run(lambda: asyncio.sleep(0), 60)
    assert closed == [True]


# ---------------------------------------------------------------------- settings and the package

WRONG = [
    ({"api_key": "a", "api_key_env": "B"}, "api_key, api_key_env: give one of them"),
    ({"base_url": "h:80"}, "base_url: must begin with http:// or https://"),
    *(
        ({"base_url": url}, "base_url: is not a valid URL")
        for url in (
            "http://[::1",
            "http:///v1",
            "http://:80",
            "http://h:99999",
            "http://h:port",
            "http://u:12#word@h",
        )
    ),
    *(
        ({"base_url": url}, "base_url: must not contain white space or control characters")
        for url in (
            "http://h\n",
            "http://h/v1 ",
            "http://h/v1\r\nx-key: y",
            "http://h /v1",
            "http://h\t/v1",
            "http://h\0",
            "http://h\x7f/v1",
            "http://h\x85",
            "http://h\u2028",
            "http://h\xa0/v1",
            "http://h/v1\u200b",
            "http://h/\u202ev1",
        )
    ),
    *(
        ({"base_url": url}, "base_url: must not contain a password; use a variable")
        for url in ("http://u:p@h", "http://u@h/v1", "https://:p@h:80", "http://@h")
    ),
]


@pytest.mark.parametrize(("settings", "message"), WRONG)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError, match=f"^{message}$"):
        Echo(**settings)


@pytest.mark.parametrize(
    "url",
    ["https://h/@v1", "http://[::1]:8000/v1", "http://h?a=b&c=%0A", "https://bücher.example/ä"],
)
def test_addresses_that_are_accepted(url):
    assert Echo(base_url=url).base_url == url


def test_missing_package(monkeypatch):
    client = Echo()
    client.package = "no_such_package"
    for call in (client.check_installed, client.warm_up, lambda: ask(client)):
        with pytest.raises(MissingExtraError, match=r"the model 'm'.*\.\[echo\]"):
            call()
    client.package = "json"
    client.check_installed()
    client.warm_up()


@pytest.mark.parametrize(
    ("value", "count"),
    [(3, 3), (0, 0), (-1, None), (True, None), (3.0, None), ("3", None), (None, None)],
)
def test_token_count(value, count):
    assert token_count(value) == count

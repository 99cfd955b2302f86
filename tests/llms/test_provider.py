"""What the clients of all providers share, with an SDK that is a class of the tests."""

import asyncio
import contextlib
import importlib
import os
import pickle
import threading

import pytest

from secondpass import ConfigurationError, NotSerializableError
from secondpass.concurrency.portal import portal
from secondpass.effects import Completion, Prompt, Turn
from secondpass.errors import LLMError, MissingExtraError
from secondpass.llms.openai import OpenAIChat
from secondpass.llms.provider import Provider, joined
from secondpass.services import client as module
from secondpass.services.client import Connection, token_count
from secondpass.settings import configurable

BOUND = Prompt("", (Turn("user", "ask"),), {"type": "object"})
FREE = Prompt("", (Turn("user", "ask"),))
KEY = "sk-secret-key"


class Refused(Exception):  # noqa: N818 - an SDK's
    def __init__(self, status, told=""):
        super().__init__(f"{KEY} and a passage")
        self.status_code = status
        self.body = {"message": told}


@configurable
class Fake(Provider):
    """Plays a script: what is raised or said, one after the other; the last one stays."""

    package = "json"
    extra = "fake"
    key_variables = ("FAKE_KEY", "OTHER_KEY")
    forms = ("json_schema", "json_object", "text")

    def _connect(self, key):
        made = vars(self).setdefault("made", [])
        made.append((key, threading.current_thread().name))
        number = len(made)

        async def close():
            vars(self).setdefault("closed", []).append(number)

        return Connection(number, close)

    def _parameters(self):
        named = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in named.items() if value is not None}

    async def _send(self, client, prompt, form):
        sent = vars(self).setdefault("sent", [])
        said = self.script[min(len(sent), len(self.script) - 1)]
        sent.append((client, form, sorted(self._sent())))
        self.loop = asyncio.get_running_loop()
        if isinstance(said, BaseException):
            raise said
        return Completion(said)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("FAKE_KEY", KEY)
    monkeypatch.delenv("OTHER_KEY", raising=False)


def fake(*script, **settings):
    model = Fake("a-model", **settings)
    model.script = script or ("yes",)
    return model


def ask(model, prompt=BOUND):
    return asyncio.run(model.complete(prompt))


def fault(model, prompt=BOUND):
    with pytest.raises(LLMError) as caught:
        ask(model, prompt)
    error = caught.value
    for text in (str(error), repr(error), repr(error.__cause__), repr(error.__context__)):
        assert KEY not in text
        assert "passage" not in text
    return error


# ---------------------------------------------------------------------- forms and parameters


def test_form_by_schema():
    model = fake()
    assert ask(model) == Completion("yes")
    ask(model, FREE)
    assert [form for _, form, _ in model.sent] == ["json_schema", "text"]


def test_forms_step_down_and_stay_there():
    refused = Refused(400, "response_format is not supported")
    model = fake(refused, refused, "yes")
    first, second = fault(model), fault(model)
    assert (first.code, first.adapted, second.adapted) == ("format_refused", True, True)
    ask(model)
    ask(model)
    forms = [form for _, form, _ in model.sent]
    assert forms == ["json_schema", "json_object", "text", "text"]


def test_the_last_form_cannot_step_down():
    model = fake(Refused(400, "response_format is not supported"), structured="text")
    assert (fault(model).code, fault(model).adapted) == ("bad_request", False)
    model = fake(Refused(400, "json_schema"), structured="json_schema")
    assert fault(model).code == "bad_request"


def test_questions_side_by_side_step_down_once():
    class Together(Fake):
        async def _send(self, client, prompt, form):
            vars(self).setdefault("sent", []).append(form)
            await asyncio.sleep(0.01)  # so that all have begun
            if form == "json_schema":
                raise Refused(400, "response_format")
            return Completion("yes")

    model = Together("a-model")

    async def act():
        return await asyncio.gather(
            *(model.complete(BOUND) for _ in range(5)), return_exceptions=True
        )

    assert {error.code for error in asyncio.run(act())} == {"format_refused"}
    assert [one.text for one in asyncio.run(act())] == ["yes"] * 5
    assert model.sent == ["json_schema"] * 5 + ["json_object"] * 5


def test_a_refused_parameter_is_not_sent_again():
    model = fake(Refused(400, "temperature is deprecated"), "yes", max_tokens=100)
    error = fault(model)
    assert (error.code, error.adapted) == ("parameter_refused", True)
    assert "temperature" in str(error)
    ask(model)
    ask(model, FREE)
    assert [sent for _, _, sent in model.sent] == [
        ["max_tokens", "temperature"],
        ["max_tokens"],
        ["max_tokens"],
    ]


def test_dropped_parameter_is_not_blamed():
    model = fake(Refused(400, "temperature and more are deprecated"))
    assert fault(model).adapted
    assert not fault(model).adapted


@pytest.mark.parametrize(
    ("status", "told", "code"),
    [
        (401, "", "authentication"),
        (429, "slow down", "rate_limited"),
        (400, "maximum context length; temperature, response_format", "too_long"),
        (500, "temperature response_format", "server_error"),
    ],
)
def test_other_errors_adapt_nothing(status, told, code):
    model = fake(Refused(status, told), "yes")
    error = fault(model)
    assert (error.code, error.adapted) == (code, False)
    assert error.too_long == (code == "too_long")


def test_foreign_errors():
    assert fault(fake(AttributeError(f"{KEY} passage"))).code == "bad_response"
    assert fault(fake(ConnectionResetError(f"{KEY} passage"))).retryable
    mine = LLMError("no choices", "bad_response")
    told = "no choices [model a-model, key of FAKE_KEY]"
    assert str(fault(fake(mine))) == told


# ---------------------------------------------------------------------- keys


def test_circuit(monkeypatch):
    model = fake(Refused(401), "yes")
    assert fault(model).code == "authentication"
    assert fault(model).code == "circuit_open"
    assert not fault(model).retryable
    assert len(model.sent) == 1
    # Another key is tried at once.
    monkeypatch.setenv("FAKE_KEY", "another")
    assert ask(model) == Completion("yes")
    monkeypatch.setenv("FAKE_KEY", KEY)
    assert fault(model).code == "circuit_open"
    monkeypatch.setattr(module, "_CIRCUIT_SECONDS", 0.0)
    assert ask(model) == Completion("yes")


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is told to go on."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    one = Clock()
    for name in ("services.client", "llms.provider"):
        monkeypatch.setattr(importlib.import_module(f"secondpass.{name}"), "time", one)
    return one


@pytest.mark.parametrize("status", [401, 403])
def test_refused_keys_open_the_circuit(status, clock):
    model = fake(Refused(status), "yes")
    assert fault(model).code == "authentication"
    for _ in range(3):
        clock.now += 19.9
        error = fault(model)
        assert (error.code, error.sent, error.retryable) == ("circuit_open", False, False)
        assert "FAKE_KEY" in str(error)
    assert len(model.sent) == 1
    clock.now += 0.4
    assert ask(model) == Completion("yes")


@pytest.mark.parametrize("status", [401, 403])
def test_another_key_closes_the_circuit(status, clock, monkeypatch):
    model = fake(Refused(status), "yes")
    fault(model)
    monkeypatch.setenv("FAKE_KEY", "another")
    assert ask(model) == Completion("yes")
    assert len(model.sent) == 2


@pytest.mark.parametrize("status", [400, 402, 404, 408, 409, 413, 422, 429, 500, 503])
def test_other_errors_open_no_circuit(status, clock):
    model = fake(Refused(status, "the api key is wrong: unauthorized"), "yes")
    fault(model)
    assert ask(model) == Completion("yes")


@pytest.mark.parametrize(
    ("told", "first", "later"),
    [
        ("response_format is not supported", "json_schema", "json_object"),
        ("temperature is deprecated", ["temperature"], []),
    ],
)
def test_what_a_refusal_taught_expires(told, first, later, clock):
    model = fake(Refused(400, told), "yes")
    assert fault(model).adapted
    clock.now += 599
    ask(model)
    clock.now += 2
    ask(model)
    place = 2 if isinstance(first, list) else 1
    assert [row[place] for row in model.sent] == [first, later, first]


@pytest.mark.parametrize("told", ["response_format", "temperature", "json schema"])
def test_an_echo_teaches_nothing(told):
    passage = f"How to set the {told} of a model, and why"
    prompt = Prompt("", (Turn("user", f"rank\n<doc>{passage}</doc>"),), {"type": "object"})
    for echo in (passage, passage[8:], passage.upper(), passage.replace(" ", "%20")):
        model = fake(Refused(400, f"cannot read: {echo}"), "yes")
        assert not fault(model, prompt).adapted
        ask(model, prompt)
        assert model.sent[1][1:] == ("json_schema", ["temperature"])


KEYS = [
    # settings; environment; the key that is used, or None
    ({}, {}, KEY),
    ({}, {"FAKE_KEY": "", "OTHER_KEY": "other"}, "other"),
    ({}, {"FAKE_KEY": "  spaced \n"}, "spaced"),
    ({}, {"FAKE_KEY": ""}, None),
    ({"api_key": "given"}, {}, "given"),
    ({"api_key_env": "MY_KEY"}, {"MY_KEY": "mine"}, "mine"),
    ({"api_key_env": "MY_KEY"}, {}, None),
    ({"api_key_env": ["NONE", "MY_KEY"]}, {"MY_KEY": "mine"}, "mine"),
    ({"api_key_env": ["MY_KEY", "ITS_KEY"]}, {"MY_KEY": "mine", "ITS_KEY": "its"}, "mine"),
    ({"api_key_env": ["NONE", "MY_KEY"]}, {}, None),
    ({"base_url": "http://localhost:1"}, {"FAKE_KEY": ""}, "none"),
    ({"base_url": "http://localhost:1"}, {}, KEY),
    ({"base_url": "http://localhost:1", "api_key_env": "MY_KEY"}, {}, None),
]


@pytest.mark.parametrize(("settings", "environment", "key"), KEYS)
def test_where_the_key_comes_from(monkeypatch, settings, environment, key):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    model = fake(**settings)
    if key is None:
        error = fault(model)
        assert error.code == "no_key"
        names = settings.get("api_key_env", ["FAKE_KEY", "OTHER_KEY"])
        assert (names if isinstance(names, str) else " or ".join(names)) in str(error)
        assert not hasattr(model, "made")
    else:
        ask(model)
        assert model.made[0][0] == key


def test_a_key_is_shown_and_written_nowhere():
    model = fake(api_key=KEY)
    ask(model)
    assert repr(model) == "<Fake 'a-model'>"
    assert KEY not in repr(vars(model)["api_key"])
    with pytest.raises(NotSerializableError):
        pickle.dumps(model.api_key)


# ---------------------------------------------------------------------- connections


def test_one_connection():
    model = fake()
    for _ in range(3):
        ask(model)
    threads = [threading.Thread(target=ask, args=(model,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(model.made) == 1
    assert {client for client, _, _ in model.sent} == {1}
    assert model.loop is portal().loop


def test_connecting_runs_in_a_thread():
    model = fake()
    ask(model)
    assert model.made[0][1] == "secondpass"


def test_after_close_a_new_connection_is_opened():
    model = fake()
    model.close()
    ask(model)
    model.close()
    model.close()
    ask(model)
    assert model.closed == [1]
    assert [client for client, _, _ in model.sent] == [1, 2]
    model.close()
    assert model.closed == [1, 2]


def test_dropped_model_closes():
    closed = threading.Event()

    class Dropped(Fake):
        def _connect(self, key):
            async def close():
                closed.set()

            return Connection(None, close)

        async def _send(self, client, prompt, form):
            return Completion("yes")

    model = Dropped("a-model")
    ask(model)
    del model
    assert closed.wait(60)


def test_changed_key_reconnects(monkeypatch):
    model = fake()
    ask(model)
    monkeypatch.setenv("FAKE_KEY", "another")
    ask(model)
    assert [key for key, _ in model.made] == [KEY, "another"]


def test_changed_key_closes(monkeypatch):
    model = fake()
    ask(model)
    monkeypatch.setenv("FAKE_KEY", "another")
    ask(model)
    model.close()
    assert sorted(model.closed) == [1, 2]


def test_cancellation_reaches_the_portal():
    ended = threading.Event()

    class Endless(Fake):
        async def _send(self, client, prompt, form):
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

    async def act():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await Endless("a-model").complete(BOUND)

    asyncio.run(act())
    assert ended.wait(60)


def test_missing_package():
    class Missing(Fake):
        package = "no_such_package_at_all"

    with pytest.raises(MissingExtraError, match=r"secondpass\[fake\]"):
        Missing("a-model").check_installed()
    with pytest.raises(MissingExtraError):
        Missing("a-model").warm_up()
    with pytest.raises(MissingExtraError):
        ask(Missing("a-model"))
    fake().warm_up()


# ---------------------------------------------------------------------- settings

WRONG = [
    ({"api_key": "a", "api_key_env": "B"}, "api_key, api_key_env: give one of them"),
    ({"base_url": "localhost:8000"}, "base_url: must begin with http"),
    ({"base_url": ""}, "base_url"),
    ({"base_url": "file:///etc"}, "base_url: must begin with http"),
    ({"api_key": ""}, "api_key"),
    ({"api_key": 7}, "api_key"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"timeout": 0}, "timeout"),
    ({"structured": "xml"}, "structured"),
    ({"context_window": 10}, "context_window"),
    ({"prices": {"input": -1, "output": 1}}, "prices"),
    ({"options": "x"}, "options"),
    ({"url": "http://x"}, "url"),
]


@pytest.mark.parametrize(("settings", "told"), WRONG, ids=[str(list(row[0])) for row in WRONG])
def test_wrong_settings_are_refused(settings, told):
    with pytest.raises(ConfigurationError, match=told):
        Fake("a-model", **settings)


def test_a_model_needs_a_name():
    for wrong in ("", None, 7):
        with pytest.raises(ConfigurationError, match="model"):
            Fake(wrong)


def test_unsupported_form():
    class Narrow(Fake):
        forms = ("text",)

    with pytest.raises(ConfigurationError, match="structured: 'json_schema' is not supported"):
        Narrow("a-model", structured="json_schema")


# ---------------------------------------------------------------------- small things


@pytest.mark.parametrize(
    ("value", "count"),
    [(3, 3), (0, 0), (-1, None), (True, None), (3.0, None), ("3", None), (None, None)],
)
def test_counts_of_tokens(value, count):
    assert token_count(value) == count


class Part:
    def __init__(self, **fields):
        vars(self).update(fields)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as it is", "as it is"),
        (None, ""),
        (7, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([{"text": "a"}], "a"),
        ([{"type": "thinking", "text": "hm"}, {"type": "output_text", "text": "a"}], "a"),
        ([Part(type="text", text="a"), Part(type="reasoning", text="hm")], "a"),
        ([{"type": "text", "text": None}, {"type": "text"}, "x", 7, None], ""),
    ],
)
def test_text_of_parts(content, text):
    assert joined(content) == text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork():
    model = fake()
    ask(model)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            ask(model)
            os.write(writing, str(model.sent[-1][0]).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"2"
    os.close(reading)
    os.close(writing)
    ask(model)
    assert model.sent[-1][0] == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"options": {"messages": []}}, "options: 'messages'"),
        ({"options": {"model": "other"}}, "options: 'model'"),
        ({"base_url": "https://user:hunter2@host/v1"}, "base_url: must not contain a password"),
        ({"base_url": "http://[::1"}, "base_url"),
        ({"api_key_env": "sk-proj-SECRET"}, "api_key_env: give the name"),
    ],
)
def test_misleading_settings(settings, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        OpenAIChat("m", **settings)
    assert "hunter2" not in str(caught.value)
    assert "SECRET" not in str(caught.value)

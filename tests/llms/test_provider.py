"""What the clients of all providers share, with an SDK that is a class of the tests."""

import asyncio
import importlib
import math

import pytest

from secondpass import ConfigurationError
from secondpass.errors import LLMError
from secondpass.llms.anthropic import AnthropicMessages
from secondpass.llms.google import GoogleGenAI
from secondpass.llms.logprobs import token_logprobs
from secondpass.llms.openai import OpenAIChat
from secondpass.llms.provider import Provider, joined
from secondpass.questions import Completion, Prompt, Turn
from secondpass.services.client import Connection
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
    key_variables = ("FAKE_KEY",)
    forms = ("json_schema", "json_object", "text")

    def _connect(self, key):
        async def close():
            pass

        return Connection(None, close)

    def _parameters(self):
        named = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in named.items() if value is not None}

    async def _send(self, client, prompt, form):
        sent = vars(self).setdefault("sent", [])
        said = self.script[min(len(sent), len(self.script) - 1)]
        sent.append((form, sorted(self._sent())))
        if isinstance(said, BaseException):
            raise said
        return Completion(said)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("FAKE_KEY", KEY)


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
    assert [form for form, _ in model.sent] == ["json_schema", "text"]


def test_forms_step_down_and_stay_there():
    refused = Refused(400, "response_format is not supported")
    model = fake(refused, refused, "yes")
    first, second = fault(model), fault(model)
    assert (first.code, first.adapted, second.adapted) == ("format_refused", True, True)
    ask(model)
    ask(model)
    forms = [form for form, _ in model.sent]
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
    parameters = [sent for _, sent in model.sent]
    assert parameters == [["max_tokens", "temperature"], ["max_tokens"], ["max_tokens"]]


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


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is told to go on."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    one = Clock()
    for name in ("services.client", "services.recent"):
        monkeypatch.setattr(importlib.import_module(f"secondpass.{name}"), "time", one)
    return one


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
    place = 1 if isinstance(first, list) else 0
    assert [row[place] for row in model.sent] == [first, later, first]


@pytest.mark.parametrize("told", ["response_format", "temperature", "json schema"])
def test_an_echo_teaches_nothing(told):
    passage = f"How to set the {told} of a model, and why"
    prompt = Prompt("", (Turn("user", f"rank\n<doc>{passage}</doc>"),), {"type": "object"})
    for echo in (passage, passage[8:], passage.upper(), passage.replace(" ", "%20")):
        model = fake(Refused(400, f"cannot read: {echo}"), "yes")
        assert not fault(model, prompt).adapted
        ask(model, prompt)
        assert model.sent[1] == ("json_schema", ["temperature"])


def test_unsupported_form():
    class Narrow(Fake):
        forms = ("text",)

    with pytest.raises(ConfigurationError, match="structured: 'json_schema' is not supported"):
        Narrow("a-model", structured="json_schema")


# ---------------------------------------------------------------------- small things


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


PARAMETERS = [
    (AnthropicMessages, {}, {"temperature": 0}),
    (AnthropicMessages, {"temperature": None, "max_tokens": 9}, {}),
    (
        AnthropicMessages,
        {"options": {"top_k": 1, "temperature": 1}},
        {"top_k": 1, "temperature": 1},
    ),
    (GoogleGenAI, {"max_tokens": 9}, {"temperature": 0, "max_output_tokens": 9}),
    (GoogleGenAI, {"temperature": None}, {}),
    (GoogleGenAI, {"options": {"top_k": 1, "temperature": 1}}, {"top_k": 1, "temperature": 1}),
    (OpenAIChat, {"max_tokens": 9}, {"temperature": 0, "max_completion_tokens": 9}),
    (OpenAIChat, {"temperature": None}, {}),
    (OpenAIChat, {"options": {"seed": 1, "temperature": 1}}, {"seed": 1, "temperature": 1}),
]


@pytest.mark.parametrize(("provider", "settings", "parameters"), PARAMETERS)
def test_parameters(provider, settings, parameters):
    assert provider("m", **settings)._parameters() == parameters


@pytest.mark.parametrize("name", ["messages", "model"])
def test_options_that_are_set_elsewhere(name):
    with pytest.raises(ConfigurationError, match=f"options: '{name}'"):
        Fake("a-model", options={name: "x"})


MERGED = [
    # The token itself, its alternatives, and probabilities of their texts.
    (("a", 0.5), [("a", 0.5), ("b", 0.25)], {"a": 0.5, "b": 0.25}),
    (("a", 0.25), [("b", 0.5), ("c", 0.125)], {"a": 0.25, "b": 0.5, "c": 0.125}),
    (("a", 0.5), [("a", 0.25), ("b", 0.5), ("a", 0.125)], {"a": 0.375, "b": 0.5}),
    (("a", 0.5), [("a", 0.5), ("b", 0.25), ("a", 0.5)], {"a": 0.5, "b": 0.25}),
    (("a", 0.5), [], {"a": 0.5}),
    (("a", 0.5), [("b", None), ("c", 0.0)], {"a": 0.5}),
    (("a", None), [("a", None), ("b", 0.5)], None),
]


@pytest.mark.parametrize(("own", "others", "merged"), MERGED)
def test_tokens_of_one_text(own, others, merged):
    def logs(entry):
        text, value = entry
        return text, None if value is None else -math.inf if value == 0 else math.log(value)

    tokens = token_logprobs([(logs(own), [logs(other) for other in others])])
    if merged is None:
        assert tokens is None
        return
    (token,) = tokens
    assert next(iter(token)) == own[0]
    assert {text: math.exp(value) for text, value in token.items()} == pytest.approx(merged)

"""What an error says of a server: address, model, status, variable, and safe words."""

from __future__ import annotations

import asyncio
import base64
import json
import unicodedata
from urllib.parse import quote

import pytest

import fake_provider as fake
from fake_provider import http
from rerank_dialects import DIALECTS
from rotation import rotated
from secondpass import RerankError
from secondpass.errors import LLMError
from secondpass.services.diagnosis import RUN, Sent, words, words_in_answer
from secondpass.settings.secrets import bare
from sent_texts import ESCAPES, KEY, PASSAGE, QUERY, SENT

FLAVOURS = ("openai", "anthropic", "google", "cohere", "tei", "mixedbread")

# ---------------------------------------------------------------------- which words are told

BODIES = [
    (
        {"error": {"code": "invalid_api_key", "type": "auth_error", "message": "No"}},
        "code invalid_api_key, type auth_error: No",
    ),
    ({"code": "model_not_found", "param": "model", "message": "No such model"},
     "code model_not_found, param model: No such model"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
     "type overloaded_error: Overloaded"),
    ({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Bad"}},
     "type INVALID_ARGUMENT: Bad"),
    ({"error": "too many", "error_type": "Overloaded"}, "type Overloaded: too many"),
    ({"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]},
     "type missing, param body.model: Field required"),
    ({"detail": "Not Found"}, "Not Found"),
    ([{"error": {"message": "in a list"}}], "in a list"),
    ("upstream connect error\n\x1b[31mreset\x00", "upstream connect error [31mreset"),
    ("<html><title>502</title>", ""),
    ({"message": "<400> Value error, no such thing"}, "<400> Value error, no such thing"),
    ({"error": {"code": "no identifier!", "type": "x" * 65, "message": ""}}, ""),
    ({"error": {"code": KEY, "type": KEY[-6:], "message": "m"}}, "m"),
    ({"error": {"message": 5, "code": None, "type": ["a", {}]}}, ""),
    (None, ""),
    (b"bytes", ""),
    ({}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "told"), BODIES)
def test_words(body, told):
    assert words(body, SENT) == told


def test_long_words_are_cut():
    told = words({"message": "ab, cd. " * 100}, SENT)
    assert len(told) == 200
    assert told.endswith("…")


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("text", [QUERY, PASSAGE])
def test_no_words_that_repeat_what_was_sent(escape, text):
    for start in (0, 5, len(text) - RUN - 4):
        for size in (RUN + 4, 25, len(text)):
            piece = ESCAPES[escape](text[start : start + size])
            assert words({"error": f"cannot read {piece} here"}, SENT) == ""


@pytest.mark.parametrize(
    "part", [KEY, KEY[:8], KEY[-4:], KEY[7:12], KEY.upper(), f"{KEY[:6]}***{KEY[-4:]}", quote(KEY)]
)
def test_no_words_with_a_part_of_a_key(part):
    assert words({"error": f"wrong: {part}"}, SENT) == ""
    assert words({"error": f"wrong:{part}."}, SENT) == ""


SCRIPTS = {
    "Chinese": "夜里斑马在稀树草原的哪里睡觉而狮子却醒着四处走动",
    "Vietnamese": "đêm đến ngựa vằn ngủ ở đâu trên thảo nguyên rộng lớn",
    "mathematical": "".join(
        chr(0x1D4D0 + ord(one) - 97) for one in "zebrassleepinthesavannaatnight"
    ),
    "Gothic": "𐌰𐌱𐌲𐌳𐌴𐌵𐌶𐌷𐌸𐌹𐌺𐌻𐌼𐌽𐌾𐌿𐍀𐍁𐍂𐍃𐍄𐍅𐍆",
}
WRITINGS = {
    "ASCII": ascii,
    "bytes": lambda text: repr(text.encode()),
    "octal": ESCAPES["octal"],
    "NFC": lambda text: unicodedata.normalize("NFC", text),
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "NFKC": lambda text: unicodedata.normalize("NFKC", text),
}


@pytest.mark.parametrize("writing", WRITINGS)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("sent_as", ["NFC", "NFD"])
def test_no_words_that_repeat_other_scripts(writing, script, sent_as):
    sent = Sent([unicodedata.normalize(sent_as, SCRIPTS[script])], [KEY])
    for text in (SCRIPTS[script], SCRIPTS[script][3:]):
        assert words({"error": f"at {WRITINGS[writing](text)}"}, sent) == ""


def test_no_words_that_repeat_a_short_query():
    assert words("nothing found for zebra", Sent(["zebra"])) == ""
    assert words("nothing found for zebras", Sent(["zebra"])) == "nothing found for zebras"


REPLY = "a reply of the model"
ANSWERS = [
    # the text of a successful response, what is told of it
    ({"error": {"code": 502, "message": "Provider error"}}, "; the server says: Provider error"),
    ({"error": "loading"}, "; the server says: loading"),
    ({"detail": "loading"}, "; the server says: loading"),
    ([{"error": {"message": "in a list"}}], "; the server says: in a list"),
    (
        {"object": "error", "message": "loading", "type": "NotReady"},
        "; the server says: type NotReady: loading",
    ),
    ({"success": False, "msg": "no such model"}, "; the server says: no such model"),
    ({"error": {"message": f"cannot read {PASSAGE}"}}, ""),
    ({"error": {"message": f"wrong key {KEY}"}}, ""),
    (f'data: {{"delta": "{REPLY}"}}\n\ndata: [DONE]', ""),
    ({"id": "r1", "object": "chat.completion", "type": "message"}, ""),
    ({"message": REPLY}, ""),
    ({"message": {"role": "assistant", "content": REPLY}, "done": True}, ""),
    ({"choices": REPLY}, ""),
    (REPLY, ""),
    (f'"{REPLY}"', ""),
    (f"<html>{REPLY}</html>", ""),
    ("", ""),
    ("[" * 100_000, ""),
]


@pytest.mark.parametrize(("answer", "told"), ANSWERS)
def test_words_in_an_answer(answer, told):
    text = answer if isinstance(answer, str) else json.dumps(answer)
    assert words_in_answer(text, SENT) == told


# ---------------------------------------------------------------------- what was sent


@pytest.mark.parametrize("escape", [name for name in ESCAPES if name != "no white space"])
def test_echoes_are_removed(escape):
    text = f"context_length_exceeded: {ESCAPES[escape](PASSAGE)} | the end"
    left = SENT.removed_from(text)
    assert "context_length_exceeded" in left
    assert "the end" in left
    for word in ("wombats", "burrows", "1899"):
        if escape != "hyphens":
            assert word not in left.lower()


HELD = [
    (QUERY[:RUN], True),
    ("wheredothezeb", True),
    ("wheredothez", False),
    (f"unknown key {KEY[4:9]}", True),
    ("unknown model", False),
    ("", False),
]


@pytest.mark.parametrize(("text", "held"), HELD, ids=[row[0] for row in HELD])
def test_parts_of_a_request(text, held):
    assert SENT.holds_part_of(text) is held


def test_short_lines_count_as_whole_words():
    sent = Sent(["<query>zebra</query>\nowl"])
    assert sent.holds_part_of("nothing found for zebra.")
    assert sent.holds_part_of("OWL not found")
    assert not sent.holds_part_of("zebras and owls")
    named = Sent(["Between <query>, <doc> and <context> tags is material.\n<doc>cats</doc>"])
    assert not named.holds_part_of("only in v1/responses, and not in v1/chat/completions")
    assert named.holds_part_of("no cats")


def test_further_keys():
    more = SENT.with_secrets(["token-XYZ", ""])
    assert more.holds_secret("bad TOKEN-xyz")
    assert more.holds_secret(KEY)
    assert not SENT.holds_secret("bad token-XYZ")


@pytest.mark.parametrize("escape", [name for name in ESCAPES if name != "no white space"])
def test_escaped_keys_are_found(escape):
    assert SENT.holds_secret(f"wrong: {ESCAPES[escape](KEY)}")


ENCODED = {
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 without its end": lambda key: base64.b64encode(key.encode()).decode()[1:-3],
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "Bearer": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "Basic": lambda key: "Basic " + base64.b64encode(f"user:{key}".encode()).decode(),
    "base64 in a URL": lambda key: quote(base64.b64encode(f"?>{key}".encode()).decode(), safe=""),
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal without its start": lambda key: key.encode().hex().upper()[1:],
    "hexadecimal with colons": lambda key: key.encode().hex(":"),
}


@pytest.mark.parametrize("encode", ENCODED)
@pytest.mark.parametrize("key", [KEY, "~?>secret<?~"])
def test_encoded_keys_are_found(encode, key):
    sent = Sent([], [key])
    assert sent.holds_secret(f"the header {ENCODED[encode](key)} is wrong")
    assert not sent.holds_secret(f"the header {ENCODED[encode]('another-one-9876')} is wrong")


@pytest.mark.parametrize("encode", ["base64", "base64 for URLs", "hexadecimal"])
def test_encoded_passages_are_found(encode):
    assert SENT.holds_part_of(ENCODED[encode](PASSAGE))
    assert not SENT.holds_part_of(ENCODED[encode]("something that was never sent to anybody"))


def test_very_long_requests_are_not_compared():
    assert Sent(["x y " * 300_000]).holds_part_of("no such model")


# ---------------------------------------------------------------------- addresses

ADDRESSES = {
    "https://api.example.com/v1": "https://api.example.com/v1",
    "https://user:pass@host:8080/v1/x?key=secret#part": "https://host:8080/v1/x",
    "http://[::1]:80/x": "http://[::1]:80/x",
    "http://[::1": "",
    "no address": "",
    "": "",
}


@pytest.mark.parametrize(("url", "told"), ADDRESSES.items())
def test_addresses(url, told):
    assert bare(url) == told


# ---------------------------------------------------------------------- through every client


@pytest.mark.parametrize(("flavour", "code"), rotated(FLAVOURS, [401, 404, 429, 503]))
def test_what_is_told(flavour, code, make, provider):
    said = "only supported in v1/responses and not in v1/chat/completions"
    body = {"error": {"code": "some_code", "type": "some_type", "message": said}}
    provider.play(fake.raw(http(code, body)))
    message = make(flavour).rerank(QUERY, [PASSAGE, "b"]).report.issues[0].message
    assert f"status {code}" in message
    assert provider.base_url(flavour).removesuffix("/v1") in message
    for part in ("model my-model", "key of MY_KEY", "some_code", said):
        assert part in message


def refused(body):
    return http(400, body)


def answered(body):
    return http(200, body)


def streamed(body):
    return http(200, b"data: " + json.dumps(body).encode() + b"\n\n", kind="text/event-stream")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_is_told_of_an_error_in_an_answer(flavour, make, provider):
    error = {"code": "some_code", "type": "some_type", "message": "Some words of its own"}
    provider.play(fake.raw(answered({"error": error})))
    message = make(flavour).rerank(QUERY, [PASSAGE, "b"]).report.issues[0].message
    assert "the server says: code some_code, type some_type: Some words of its own" in message


@pytest.mark.parametrize("form", [refused, answered, streamed])
@pytest.mark.parametrize(
    ("flavour", "escape"),
    rotated(FLAVOURS, ["plain", "json in json", "html", "url", "upper case"]),
)
def test_what_is_not_told(flavour, escape, form, make, provider, caplog):
    caplog.set_level("DEBUG", "secondpass")
    repeated = ESCAPES[escape](f"{QUERY}: {PASSAGE}, {KEY}")
    provider.play(fake.raw(form({"error": {"code": KEY, "message": f"bad: {repeated}"}})))
    one = make(flavour, strict=True)
    with pytest.raises(RerankError) as caught:
        one.rerank(QUERY, [PASSAGE, "b"])
    logged = [record.getMessage() for record in caplog.records]
    error = caught.value
    assert error.__cause__ is None
    for text in (str(error), repr(error), *logged, json.dumps(error.ranking.report.to_dict())):
        for secret in ("zebras", "wombats", KEY, KEY[-4:], "bad:"):
            assert secret.lower() not in text.lower()
    assert "model my-model" in str(error) or flavour in DIALECTS


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_errors_hold_no_exception_of_an_sdk(flavour, make, provider):
    provider.play(fake.status(404))
    one = make(flavour)
    service = one.method if flavour in DIALECTS else one.method.llm
    if flavour in DIALECTS:
        from secondpass.apis.wire import RerankRequest

        request = RerankRequest(QUERY, [PASSAGE])
    else:
        from secondpass.questions import Prompt, Turn

        request = Prompt("", (Turn("user", PASSAGE),))
    with pytest.raises(LLMError) as caught:
        asyncio.run(service.complete(request))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None

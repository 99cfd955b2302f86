"""What every client makes of bodies and connections, over the loopback interface."""

from __future__ import annotations

import asyncio
import codecs
import gzip
import json
import logging

import httpx
import pytest

import fake_provider as fake
from fake_provider import FakeProvider, http
from fault_fixtures import _closing, _environment, _sdks
from rerank_dialects import DIALECTS
from rotation import rotated
from secondpass import Reranker
from secondpass.apis import method
from secondpass.services import http as module
from secondpass.services.http import MAX_SDK_VALUES, _ValueCounter

__all__ = ["_closing", "_environment", "_sdks"]

FLAVOURS = ("openai", "anthropic", "google", "cohere", "tei")
GIVEN = ["3 ä", "9 ö", "5 ü"]
BEST_FIRST = (1, 2, 0)

ENCODINGS = {
    "utf-8": lambda text: text.encode(),
    "utf-8 with a mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "utf-16-le": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "utf-16-be": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "utf-32-le": lambda text: codecs.BOM_UTF32_LE + text.encode("utf-32-le"),
    "utf-32-be": lambda text: codecs.BOM_UTF32_BE + text.encode("utf-32-be"),
}


@pytest.fixture(scope="module")
def provider():
    with FakeProvider() as one:
        yield one


@pytest.fixture
def make(provider, closing):
    def reranker(flavour, **limits):
        if flavour in DIALECTS:
            method = {
                "type": "endpoint",
                "api": flavour,
                "model": "m",
                "base_url": provider.base_url(flavour),
                "api_key": "sk-test",
            }
        else:
            method = {"type": "graded", "llm": provider.llm(flavour, api_key="sk-test")}
        return closing(Reranker.from_config({"method": method, "limits": {"retries": 0, **limits}}))

    return reranker


def good_text(request):
    if request.rerank:
        return json.dumps(fake.rerank_envelope(request, fake.rerank_rows(request)))
    reply = fake.envelope(request, fake.reply_text(request))
    return json.dumps(reply, ensure_ascii=False)


def answered(pack, headers=None, kind="application/json"):
    return lambda request: [http(200, pack(good_text(request)), headers, kind)]


@pytest.fixture
def lookups(monkeypatch):
    """The names of codecs that were looked up for a response."""
    found = []
    lookup = codecs.lookup

    def recorded(name):
        found.append(name)
        return lookup(name)

    monkeypatch.setattr(codecs, "lookup", recorded)
    return found


@pytest.mark.parametrize(("flavour", "encoding"), rotated(FLAVOURS, ENCODINGS))
def test_encodings_of_answers(flavour, encoding, make, provider):
    provider.play(answered(ENCODINGS[encoding], kind="application/json; charset=punycode"))
    ranking = make(flavour).rerank("q", GIVEN)
    assert (ranking.report.status, ranking.order) == ("ok", BEST_FIRST)


@pytest.mark.parametrize(
    ("flavour", "code", "charset"),
    rotated(FLAVOURS, [200, 400, 500], ["punycode", "idna", "utf-7", "no-such", "utf-16"]),
)
def test_no_declared_charset_is_looked_up(flavour, code, charset, make, provider, lookups):
    """Decoding 400 kB of punycode takes seconds."""
    one = make(flavour)
    provider.play()
    one.rerank("q", GIVEN)
    lookups.clear()
    body = b'{"error": "' + b"a-" * 200_000 + b'"}'
    provider.play(fake.raw(http(code, body, kind=f"application/json; charset={charset}")))
    ranking = one.rerank("q", GIVEN)
    assert ranking.report.status == "unchanged"
    assert charset not in lookups


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_broken_utf16(flavour, make, provider):
    body = codecs.BOM_UTF16_LE + b"\x00\xd8{\x00\x01"
    provider.play(fake.raw(http(200, body)))
    ranking = make(flavour).rerank("q", GIVEN)
    assert {issue.code for issue in ranking.report.issues} == {"bad_response"}
    provider.play(fake.raw(http(503, body)))
    ranking = make(flavour).rerank("q", GIVEN)
    assert {issue.code for issue in ranking.report.issues} == {"server_error"}


def members(text, size=10):
    raw = text.encode()
    return b"".join(gzip.compress(raw[at : at + size]) for at in range(0, len(raw), size))


PACKED = {
    "one member": lambda text: gzip.compress(text.encode()),
    "several members": members,
    "a member for each byte": lambda text: members(text, 1),
    "padding behind": lambda text: gzip.compress(text.encode()) + b"\0" * 512,
    "empty members": lambda text: gzip.compress(b"") * 9 + members(text) + gzip.compress(b"") * 9,
}


@pytest.mark.parametrize(("flavour", "pack"), rotated(FLAVOURS, PACKED))
def test_gzip(flavour, pack, make, provider):
    provider.play(answered(PACKED[pack], {"Content-Encoding": "gzip"}))
    ranking = make(flavour).rerank("q", GIVEN)
    assert (ranking.report.status, ranking.order) == ("ok", BEST_FIRST)


MANY = {
    "members that unpack to much": (gzip.compress(b" " * 2**22) * 5, "response_too_long"),
    "members without end": (gzip.compress(b"") * 5000, "response_too_long"),
    "other bytes behind": (gzip.compress(b"{}") + b"more", "bad_response"),
}


@pytest.mark.parametrize(
    ("flavour", "name"), rotated(["openai", "anthropic", "google", "tei"], MANY)
)
def test_bounds_of_gzip(flavour, name, make, provider):
    body, code = MANY[name]
    provider.play(fake.raw(http(200, body, {"Content-Encoding": "gzip"})))
    ranking = make(flavour).rerank("q", GIVEN)
    assert {issue.code for issue in ranking.report.issues} == {code}


ROOT = {"openai": "choices", "anthropic": "content", "google": "candidates", "tei": "results"}


@pytest.mark.parametrize(("flavour", "packed"), rotated(ROOT, [False, True]))
def test_answers_of_too_many_values(flavour, packed, make, provider, monkeypatch):
    if flavour == "tei":
        monkeypatch.setattr(method, "MAX_VALUES", MAX_SDK_VALUES)
    body = b'{"%s": [%s{}]}' % (ROOT[flavour].encode(), b"{}," * MAX_SDK_VALUES)
    headers = {"Content-Encoding": "gzip"} if packed else None
    provider.play(fake.raw(http(200, gzip.compress(body) if packed else body, headers)))
    ranking = make(flavour).rerank("q", GIVEN)
    assert {issue.code for issue in ranking.report.issues} == {"response_too_long"}


JSON_TEXTS = {
    b'{"a": [1, 2, {"b": "c"}]}': 8,
    rb'["{[,\\\"{[,", "\\", "x\\\\"]': 6,
    b'"': 0,
    b"[[[[": 4,
    b'["\\u007b,,,", 5]': 3,
}


@pytest.mark.parametrize("text", JSON_TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_value_counter(text, size):
    counter = _ValueCounter(MAX_SDK_VALUES)
    for at in range(0, len(text), size):
        counter.feed(text[at : at + size])
    assert counter.count == JSON_TEXTS[text]


def test_small_chunks_yield():
    class Chunks(httpx.AsyncByteStream):
        async def __aiter__(self):
            for _ in range(1000):
                yield b" "

    async def turns_of_others():
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        response = httpx.Response(200, stream=Chunks())
        await module._limit(response, module.MAX_VALUES)
        task = asyncio.ensure_future(other())
        assert await response.aread() == b" " * 1000
        task.cancel()
        return turns

    assert asyncio.run(turns_of_others()) >= 5


def test_a_mark_cut_into_single_bytes(make, provider):
    body = codecs.BOM_UTF16_BE + b"\x00[\x00]"

    def step(_request):
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        yield f"Content-Length: {len(body)}\r\n\r\n".encode()
        for byte in body:
            yield bytes([byte])
            yield fake.Pause(0.01)

    provider.play(step)

    async def read():
        async with module.bounded(httpx.AsyncClient, 5) as client:
            return (await client.post(provider.base_url("tei") + "/rerank", json={})).content

    assert asyncio.run(read()) == b"[]"


# ---------------------------------------------------------------------- connections


def smuggled(request):
    """A right answer, and in the same segment an answer that nobody asked for."""
    forged = json.loads(good_text(request))
    text = json.dumps(forged).replace("0.9", "0.0")
    yield http(200, good_text(request).encode()) + http(200, text.encode()) * 2


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_surplus_bytes_answer_no_later_request(flavour, make, provider):
    one = make(flavour)
    provider.play(fake.good())
    one.rerank("q", GIVEN)
    provider.play(smuggled, fake.good())
    assert one.rerank("q", GIVEN).report.status == "ok"
    before = provider.connections
    # What the forged answer is about: other candidates, the other way round.
    ranking = one.rerank("q", ["9 a", "1 b", "8 c"])
    assert (ranking.report.status, ranking.order) == ("ok", (0, 2, 1))
    assert len(provider.requests) == 2
    assert provider.connections == before + 1


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_surplus_behind_an_error(flavour, make, provider):
    one = make(flavour)

    def step(request):
        yield http(500, {"error": "no"}) + http(200, good_text(request).encode())

    provider.play(step, fake.good())
    assert one.rerank("q", GIVEN).report.status == "unchanged"
    ranking = one.rerank("q", ["9 a", "1 b", "8 c"])
    assert (ranking.report.status, ranking.order) == ("ok", (0, 2, 1))
    assert len(provider.requests) == 2


def test_nothing_is_reused_unseen(make, provider, monkeypatch):
    """As with a version of the HTTP library that keeps its state elsewhere."""
    monkeypatch.setattr(module, "_INNER", ())
    one = make("tei")
    provider.play(smuggled, fake.good())
    before = provider.connections
    for _ in range(3):
        ranking = one.rerank("q", GIVEN)
        assert (ranking.report.status, ranking.order) == ("ok", BEST_FIRST)
    assert provider.connections == before + 3
    assert len(provider.requests) == 3


# ---------------------------------------------------------------------- keys


UNFIT = ["sk-1\n23456", "sk-1\r\nX: 23456", "sk-\x00456", "ключ456", "\x7f456"]


SOURCES = [(key, source) for key in UNFIT for source in ("variable", "setting")]
SOURCES.remove(("sk-\x00456", "variable"))  # which no environment can hold


@pytest.mark.parametrize(("flavour", "unfit"), rotated(FLAVOURS, SOURCES))
def test_keys_that_no_header_can_hold(flavour, unfit, provider, monkeypatch, closing):
    key, source = unfit
    given = {"api_key": key}
    if source == "variable":
        monkeypatch.setenv("MY_KEY", key)
        given = {"api_key_env": "MY_KEY"}
    if flavour in DIALECTS:
        base_url = provider.base_url(flavour)
        method = {"type": "endpoint", "api": flavour, "model": "m", "base_url": base_url, **given}
    else:
        method = {"type": "graded", "llm": provider.llm(flavour, **given)}
    one = closing(Reranker.from_config({"method": method, "limits": {"retries": 2}}))
    provider.play()
    ranking = one.rerank("q", GIVEN)
    assert [issue.code for issue in ranking.report.issues] == ["invalid_key"]
    message = ranking.report.issues[0].message
    assert "456" not in message
    assert ("MY_KEY" if source == "variable" else "api_key") in message
    assert ranking.report.usage.calls == 0
    assert not provider.requests


def test_a_large_error_is_not_read_to_its_end(make, provider):
    one = make("tei")
    provider.play(fake.raw(http(503, b"x" * 2**23)))
    ranking = one.rerank("q", GIVEN)
    assert {issue.code for issue in ranking.report.issues} == {"server_error"}


PATH = "/openai/v1/chat/completions"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize("package", ["httpx", "httpx2"])
def test_what_is_sent_and_what_is_logged_of_a_url(package, provider, caplog):
    """All of it; neither the password nor the query, at any level."""
    httpx_or_2 = pytest.importorskip(package)
    caplog.set_level(logging.DEBUG)
    provider.play(fake.raw(http(200, {})), fake.raw(http(404, {})))
    before = len(provider.requests)

    async def get():
        client = module.bounded(httpx_or_2.AsyncClient, 20)
        async with client:
            url = f"http://user:sesame@127.0.0.1:{provider.port}{PATH}?key=sesame&n=1"
            request = client.build_request("POST", url, json=CHAT)
            first = await client.send(request)
            again = await client.send(request)  # as clients do that try again
            with pytest.raises(httpx_or_2.HTTPStatusError) as caught:
                again.raise_for_status()
            return [first, again, caught.value]

    responses = asyncio.run(get())
    assert [response.status_code for response in responses[:2]] == [200, 404]
    sent = [request.path for request in provider.requests[before:]]
    assert sent == [f"{PATH}?key=sesame&n=1"] * 2
    authorization = {request.headers["authorization"] for request in provider.requests[before:]}
    assert authorization == {"Basic dXNlcjpzZXNhbWU="}
    shown = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    shown += [f"{one!r} {one}" for one in [*responses, responses[0].request]]
    assert any(PATH in text for text in shown)
    assert not [text for text in shown if "sesame" in text]


@pytest.mark.parametrize("proxied", [False, True])
def test_a_url_of_several_requests(proxied, provider, monkeypatch):
    """Cookies, proxies and a flow of several requests work as with httpx's own URLs."""
    if proxied:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{provider.port}")
        monkeypatch.delenv("no_proxy", raising=False)
    provider.play(
        fake.raw(http(200, {}, {"set-cookie": "a=b; path=/openai"})), fake.raw(http(200, {}))
    )
    before = len(provider.requests)

    class Twice(httpx.Auth):
        def auth_flow(self, request):
            yield request
            request.url = request.url.copy_add_param("again", "1")
            yield request

    async def get():
        async with module.bounded(httpx.AsyncClient, 20, auth=Twice()) as client:
            host = "search.example" if proxied else f"127.0.0.1:{provider.port}"
            await client.post(f"http://{host}{PATH}?key=k", json=CHAT)
            return dict(client.cookies)

    assert asyncio.run(get()) == {"a": "b"}
    queries = [request.path.partition("?")[2] for request in provider.requests[before:]]
    assert queries == ["key=k", "key=k&again=1"]

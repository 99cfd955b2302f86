"""What every client makes of bodies and connections, over the loopback interface."""

from __future__ import annotations

import asyncio
import codecs
import gzip
import logging

import httpx
import pytest

import fake_provider as fake
from fake_provider import http
from rankings import codes
from rotation import rotated
from secondpass.apis import method
from secondpass.services import http as module
from secondpass.services.http import (
    MAX_SDK_VALUES,
    ResponseTooLongError,
    UnreadableResponseError,
    _ValueCounter,
)

FLAVOURS = ("openai", "anthropic", "google", "cohere", "tei")
GIVEN = ["3 ä", "9 ö", "5 ü"]
BEST_FIRST = (1, 2, 0)


def fetched(provider, *parts, seconds=0.0):
    """The body that a client with bounds reads of a response; ``seconds`` pass after each part."""
    wire = [step for part in parts for step in (part, fake.Pause(seconds))] if seconds else parts
    provider.play(fake.raw(*wire))

    async def post():
        async with module.bounded(httpx.AsyncClient, 20) as client:
            return (await client.post(provider.base_url("tei") + "/rerank", json={})).content

    return asyncio.run(post())


# ---------------------------------------------------------------------- bodies


TEXT = '{"a": "ä 漢 🦉"}'
UTF_8 = TEXT.encode()
PACKED = {"Content-Encoding": "gzip"}
ONE_MEMBER = gzip.compress(UTF_8)
WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
BODIES = {
    # what is sent, whether by gzip; what is read, or the error
    "utf-8": (UTF_8, False, UTF_8),
    "utf-8 with a mark": (codecs.BOM_UTF8 + UTF_8, False, UTF_8),
    **{name: (TEXT.encode(name), False, UnreadableResponseError) for name in WIDE},
    "utf-16 with a mark": (TEXT.encode("utf-16"), False, UnreadableResponseError),
    "utf-32 with a mark": (TEXT.encode("utf-32"), False, UnreadableResponseError),
    "one member": (ONE_MEMBER, True, UTF_8),
    "one member with a mark": (gzip.compress(codecs.BOM_UTF8 + UTF_8), True, UTF_8),
    "padding behind": (ONE_MEMBER + b"\0" * 512, True, UTF_8),
    "two members": (ONE_MEMBER * 2, True, UnreadableResponseError),
    "a member that unpacks to much": (gzip.compress(b" " * 2**25), True, ResponseTooLongError),
    "other bytes behind": (gzip.compress(b"{}") + b"more", True, UnreadableResponseError),
    "no gzip": (UTF_8, True, UnreadableResponseError),
}


@pytest.mark.parametrize(("body", "packed", "read"), BODIES.values(), ids=BODIES)
def test_bodies(body, packed, read, provider):
    response = http(200, body, PACKED if packed else None)
    if isinstance(read, bytes):
        assert fetched(provider, response) == read
    else:
        with pytest.raises(read):
            fetched(provider, response)


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_in_single_bytes(packed, provider):
    body = codecs.BOM_UTF8 + UTF_8
    response = http(200, gzip.compress(body) if packed else body, PACKED if packed else None)
    assert fetched(provider, *(bytes([byte]) for byte in response), seconds=0.002) == UTF_8


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_packed_answer_with_a_mark(flavour, make, provider):
    """In UTF-8, under the name of another encoding."""

    def step(request):
        body = codecs.BOM_UTF8 + good_text(request).encode()
        return [http(200, gzip.compress(body), PACKED, "application/json; charset=punycode")]

    provider.play(step)
    ranking = make(flavour).rerank("q", GIVEN)
    assert (ranking.report.status, ranking.order) == ("ok", BEST_FIRST)


def good_text(request):
    return fake.good_bytes(request).decode()


def test_of_an_error_the_beginning_is_read(provider):
    wide = TEXT.encode("utf-16")  # of an error, any text is passed on
    assert fetched(provider, http(503, wide)) == wide
    assert 2**20 < len(fetched(provider, http(503, b"x" * 2**23))) < 2**21


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


ROOT = {"openai": "choices", "anthropic": "content", "google": "candidates", "tei": "results"}


@pytest.mark.parametrize(("flavour", "packed"), rotated(ROOT, [False, True]))
def test_answers_of_too_many_values(flavour, packed, make, provider, monkeypatch):
    if flavour == "tei":
        monkeypatch.setattr(method, "MAX_VALUES", MAX_SDK_VALUES)
    body = b'{"%s": [%s{}]}' % (ROOT[flavour].encode(), b"{}," * MAX_SDK_VALUES)
    body = gzip.compress(body) if packed else body
    provider.play(fake.raw(http(200, body, PACKED if packed else None)))
    assert codes(make(flavour).rerank("q", GIVEN)) == {"response_too_long"}


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


# ---------------------------------------------------------------------- connections


def smuggled(code):
    """An answer, and in the same segment answers that nobody asked for."""

    def step(request):
        text = good_text(request)
        answer = http(200, text.encode()) if code == 200 else http(code, {"error": "no"})
        yield answer + http(200, text.replace("0.9", "0.0").encode()) * 2

    return step


@pytest.mark.parametrize("code", [200, 500])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_surplus_bytes_answer_no_later_request(flavour, code, make, provider):
    one = make(flavour)
    provider.play(fake.good())
    one.rerank("q", GIVEN)
    provider.play(smuggled(code), fake.good())
    assert one.rerank("q", GIVEN).report.status == ("ok" if code == 200 else "unchanged")
    before = provider.connections
    # What the forged answer is about: other candidates, the other way round.
    ranking = one.rerank("q", ["9 a", "1 b", "8 c"])
    assert (ranking.report.status, ranking.order) == ("ok", (0, 2, 1))
    assert len(provider.requests) == 2
    assert provider.connections == before + 1


def test_nothing_is_reused_unseen(make, provider, monkeypatch):
    """As with a version of the HTTP library that keeps its state elsewhere."""
    monkeypatch.setattr(module, "_INNER", ())
    one = make("tei")
    provider.play(smuggled(200), fake.good())
    before = provider.connections
    for _ in range(3):
        ranking = one.rerank("q", GIVEN)
        assert (ranking.report.status, ranking.order) == ("ok", BEST_FIRST)
    assert provider.connections == before + 3
    assert len(provider.requests) == 3


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


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("status", "words"), [(200, "OK"), (404, "Not Found"), (599, "")])
def test_no_words_of_a_server_are_logged(make, provider, caplog, flavour, status, words):
    """A reason phrase may repeat the request. Other requests are logged as before."""
    caplog.set_level(logging.INFO)
    head = f"HTTP/1.1 {status} 3 ä and wombats\r\nContent-Length: 2\r\n\r\n{{}}"
    provider.play(fake.raw(head.encode("latin-1")))
    make(flavour).rerank("q", GIVEN)
    requests = [text for text in caplog.messages if text.startswith("HTTP Request: POST http://")]
    assert requests
    assert all(text.endswith(f'"HTTP/1.1 {status} {words}"') for text in requests)
    assert not [text for text in caplog.messages if "wombats" in text]
    with httpx.Client() as client:
        client.post(f"{provider.base_url('tei')}/rerank", json={})
    assert caplog.messages[-1].endswith('wombats"')


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

"""The real SDKs read the good replies of the fake provider, and raise for its errors."""

import asyncio
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
from rotation import rotated

DOCUMENTS = ["cats, 3", "dogs, 9", "a &lt; b, 5"]
LABELS = ["a", "b", "c"]
PROMPT = "".join(
    f'<doc id="{label}">{text}</doc>' for label, text in zip(LABELS, DOCUMENTS, strict=True)
)
KEYED = {
    "type": "object",
    "properties": {label: {"type": "number"} for label in LABELS},
    "required": LABELS,
    "additionalProperties": False,
}
RANKING = {
    "type": "object",
    "properties": {"ranking": {"type": "array", "items": {"type": "string"}}},
    "required": ["ranking"],
}
ROW = {"type": "object", "properties": {"id": {"type": "string"}, "score": {"type": "number"}}}
PAIRS = {"type": "object", "properties": {"grades": {"type": "array", "items": ROW}}}
GRADES = {"a": 3.0, "b": 9.0, "c": 5.0}


def ask_openai(provider, schema=None, timeout=60.0):
    import openai

    base_url = provider.base_url("openai")
    wanted = {"name": "r", "strict": True, "schema": schema}
    more = {"response_format": {"type": "json_schema", "json_schema": wanted}} if schema else {}
    with openai.OpenAI(base_url=base_url, api_key="k", timeout=timeout, max_retries=0) as client:
        reply = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": PROMPT}], **more
        )
    assert reply.usage.prompt_tokens == fake.INPUT_TOKENS
    return reply.choices[0].message.content


def ask_anthropic(provider, schema=None, timeout=60.0):
    import anthropic

    base_url = provider.base_url("anthropic")
    more = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    with anthropic.Anthropic(
        base_url=base_url, api_key="k", timeout=timeout, max_retries=0
    ) as client:
        reply = client.messages.create(
            model="m",
            max_tokens=100,
            messages=[{"role": "user", "content": [{"type": "text", "text": PROMPT}]}],
            **(more if schema else {}),
        )
    assert reply.usage.output_tokens == fake.OUTPUT_TOKENS
    return reply.content[0].text


def ask_google(provider, schema=None, timeout=60.0):
    from google import genai
    from google.genai.types import GenerateContentConfig, HttpOptions

    options = HttpOptions(base_url=provider.base_url("google"), timeout=int(timeout * 1000))
    wanted = GenerateContentConfig(
        response_mime_type="application/json", response_json_schema=schema
    )
    with genai.Client(api_key="k", http_options=options) as client:
        reply = client.models.generate_content(
            model="m", contents=PROMPT, config=wanted if schema else None
        )
    assert reply.usage_metadata.prompt_token_count == fake.INPUT_TOKENS
    return reply.text


ASK = {"openai": ask_openai, "anthropic": ask_anthropic, "google": ask_google}


@pytest.mark.parametrize("flavour", ASK)
@pytest.mark.parametrize(
    ("schema", "reply"),
    [
        (KEYED, GRADES),
        (None, GRADES),
        (RANKING, {"ranking": ["b", "c", "a"]}),
        (PAIRS, {"grades": [{"id": label, "score": score} for label, score in GRADES.items()]}),
    ],
)
def test_good_replies_are_read_by_the_sdks(provider, flavour, schema, reply):
    provider.play()
    assert json.loads(ASK[flavour](provider, schema)) == reply
    request = provider.requests[0]
    assert (request.flavour, request.key, request.schema) == (flavour, "k", schema)
    assert request.documents == {"a": "cats, 3", "b": "dogs, 9", "c": "a < b, 5"}


FAULTS = {
    "silence": fake.silence(),
    "headers then silence": fake.headers_then_silence(),
    "closed": fake.raw(fake.End.CLOSE),
    "reset": fake.raw(fake.End.RESET),
    "cut short": fake.good_but(lambda _, whole: [fake.http(200, whole)[:-9], fake.End.CLOSE]),
    "bad status line": fake.raw(b"HELLO\r\n\r\n", fake.End.CLOSE),
    "bad chunk": fake.chunked(b"zz\r\n{}\r\n"),
    "bad gzip": fake.encoded("gzip"),
    "401": fake.status(401),
    "429": fake.status(429, headers={"Retry-After": "86400"}),
    "500": fake.status(500),
    "529": fake.status(529),
    "schema refused": fake.schema_refused(),
    "quota": fake.quota_used_up(),
    "too long": fake.too_long(),
}


@pytest.mark.parametrize(("flavour", "fault"), rotated(ASK, FAULTS))
def test_faults_raise_in_the_sdks(provider, flavour, fault):
    provider.play(FAULTS[fault])
    for timeout in (0.2, 2.0, 20.0):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - three SDKs, faults that they miss
            ASK[flavour](provider, timeout=timeout)
        assert not isinstance(caught.value, AssertionError)
        if provider.calls:  # the machine was fast enough to send a request
            break
    assert provider.calls >= 1


@pytest.mark.parametrize("flavour", ASK)
@pytest.mark.parametrize(
    "step", [fake.in_chunks(), fake.encoded("gzip", truthfully=True)], ids=["chunks", "gzip"]
)
def test_unusual_replies_that_are_good_are_read(provider, flavour, step):
    provider.play(step)
    assert json.loads(ASK[flavour](provider)) == GRADES


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


def rerank(provider, flavour):
    path = {"cohere": "/v2/rerank", "jina": "/rerank", "tei": "/rerank"}[flavour]
    given = "texts" if flavour == "tei" else "documents"
    return post(provider.base_url(flavour) + path, {"query": "q", given: ["a 3", "b 9", "c 5"]})


@pytest.mark.parametrize("flavour", ["cohere", "jina", "tei"])
def test_rerank_apis_answer_best_first(provider, flavour):
    provider.play()
    code, said = rerank(provider, flavour)
    rows = said if flavour == "tei" else said["results"]
    score = "score" if flavour == "tei" else "relevance_score"
    assert code == 200
    assert [(row["index"], row[score]) for row in rows] == [(1, 0.9), (2, 0.5), (0, 0.3)]


@pytest.mark.parametrize("fault", fake.RERANK_FAULTS)
def test_rerank_errors_differ_from_the_good_reply(provider, fault):
    provider.play()
    good = {flavour: rerank(provider, flavour) for flavour in ("cohere", "jina", "tei")}
    provider.play(fake.rerank_answers(fake.RERANK_FAULTS[fault]))
    for flavour, right in good.items():
        assert json.dumps(rerank(provider, flavour)) != json.dumps(right)


def test_script(provider):
    provider.play(fake.status(500), fake.status(429), then=fake.good())
    url = provider.base_url("openai") + "/chat/completions"
    assert [post(url, {"messages": []})[0] for _ in range(4)] == [500, 429, 200, 200]
    assert [request.number for request in provider.requests] == [0, 1, 2, 3]
    assert provider.calls == 4
    assert provider.most_at_once == 1
    assert post(provider.base_url("openai") + "/unknown", {})[0] == 404


def test_schemaless_server():
    with FakeProvider(schemaless=["compatible"]) as provider:
        wanted = {"type": "json_schema", "json_schema": {"name": "r", "schema": KEYED}}
        url = provider.base_url("compatible") + "/chat/completions"
        assert post(url, {"messages": [], "response_format": wanted})[0] == 400
        assert post(url, {"messages": [], "response_format": {"type": "json_object"}})[0] == 200
        assert (provider.schemas_refused, len(provider.requests), provider.calls) == (1, 1, 2)


def test_overlapping_requests():
    with FakeProvider(fake.good(after=0.1)) as provider:
        url = provider.base_url("openai") + "/chat/completions"
        threads = [threading.Thread(target=post, args=(url, {"messages": []})) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert provider.calls == 4
        assert 2 <= provider.most_at_once <= 4


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


def test_a_loop_of_the_test_is_left_alone():
    async def main():
        with FakeProvider() as provider:
            url = provider.base_url("openai") + "/chat/completions"
            return await asyncio.to_thread(post, url, {"messages": []})

    assert asyncio.run(main())[0] == 200

"""How deep and how large a body is, before it is parsed, and what goes on meanwhile."""

import json
import threading

import pytest

from fakes import ByTable
from secondpass import Reranker
from secondpass_server.http import application, bodies
from secondpass_server.http.errors import RequestError


@pytest.mark.parametrize("raw", [b'"\\' * 10**6, b'"' + b'\\"' * 10**6, b'"' * (10**6 + 1)])
def test_strings_without_an_end_take_no_time(raw):
    """Quadratic time would be days."""
    with pytest.raises(RequestError) as caught:
        bodies.parse(raw)
    assert caught.value.status == 400


@pytest.mark.parametrize("text", [",", "[{", '\\",', "ä,"])
def test_a_large_body_of_few_values(text):
    """What looks like values within strings are none."""
    body = {"documents": [text * 250_000, "b"]}
    assert bodies.parse(json.dumps(body, ensure_ascii=False).encode()) == body


@pytest.mark.parametrize("values", ["1,", "[],", '{"a":1},', '"a,b",'])
def test_a_large_body_of_many_values(values):
    with pytest.raises(RequestError) as caught:
        bodies.parse(f"[{values * 200_001}1]".encode())
    assert caught.value.status == 413


def test_others_are_answered_while_a_large_body_is_parsed(serving, monkeypatch):
    """And while the response, which has the documents, is written."""
    server = serving(Reranker(ByTable()))
    begun, others = threading.Barrier(2, timeout=60), threading.Event()
    parse, dumps = bodies.parse, json.dumps
    events = []

    def held(name, raw):
        if len(raw) > 2**22:
            begun.wait()
            assert others.wait(60)
            others.clear()
            events.append(name)

    def slow_parse(raw):
        held("parsed", raw)
        return parse(raw)

    def slow_dumps(value, **options):
        text = dumps(value, **options)
        held("written", text)
        return text

    monkeypatch.setattr(bodies, "parse", slow_parse)
    documents = ["a" * 190_000] * 42 + ["b" * 199_000]
    large = {"query": "q", "documents": documents, "return_documents": True}
    found = []
    # The client writes its body before this is slow.
    content = dumps(large)
    assert 2**23 - 2**19 < len(content) <= 2**23
    monkeypatch.setattr(application.json, "dumps", slow_dumps)
    client = threading.Thread(
        target=lambda: found.append(server.send("/jina/v1/rerank", content.encode()))
    )
    client.start()
    for _ in range(2):
        begun.wait()
        answer = server.post("/v1/rerank", {"query": "q", "documents": ["a", "bb"]})
        assert [row["index"] for row in answer.json()["results"]] == [1, 0]
        events.append("other")
        others.set()
    client.join(60)
    assert events == ["other", "parsed", "other", "written"]
    (response,) = found
    assert response.json()["results"][0]["index"] == 42

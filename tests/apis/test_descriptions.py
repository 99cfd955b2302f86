"""Descriptions of rerank APIs: the built-in ones, and those of users."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path

import pytest

from rerank_dialects import DIALECTS, NUMBERS
from secondpass import ConfigurationError, Reranker
from secondpass.apis.descriptions import APIS
from secondpass.apis.endpoint import Endpoint
from secondpass.apis.wire import RerankRequest, request_url

CLIENTS = json.loads(
    (Path(__file__).parents[1] / "support" / "rerank_clients.json").read_text(encoding="utf-8")
)
"""What the clients of providers send; written by ``tools/verify_rerank_apis.py --record``."""

REQUEST = {"q": "$query", "d": "$documents"}


@pytest.mark.parametrize("name", APIS)
def test_what_it_was_checked_against(name):
    known = APIS[name].verified
    assert known is not None
    if known.by == "documentation":
        assert known.address.startswith("https://")
        assert name not in CLIENTS
    else:
        assert (known.by, known.version) == (CLIENTS[name]["package"], CLIENTS[name]["version"])


@pytest.mark.parametrize("name", CLIENTS)
def test_requests_are_those_of_the_client(name):
    client, api = CLIENTS[name], APIS[name]
    endpoint = Endpoint(name, model="m", base_url="http://h", spans=api.spans is not None)
    body = endpoint._body(RerankRequest("q", NUMBERS), ())
    for member in body.keys() & client["body"].keys() - {"truncate"}:
        assert body[member] == client["body"][member]
    texts = json.dumps(NUMBERS[0])
    holds = [member for member, value in client["body"].items() if texts in json.dumps(value)]
    assert set(holds) <= set(body)
    path = request_url(api, "http://h", None, "m").removeprefix("http://h")
    if name == "vertex":
        path = f"/v1/projects/p/locations/global{path}"
    assert path.removeprefix("/v1") == client["path"].partition("?")[0].removeprefix("/v1")
    header, prefix = DIALECTS[name].header
    assert client["key"] == f"{header}: {prefix}".strip(": ")


WRONG = [
    ({}, "request: is required"),
    ({"request": {}}, "request: must contain the query"),
    ({"request": []}, "request: "),
    ({"request": {"q": "$query"}}, "request: must contain the documents"),
    ({"request": {**REQUEST, "x": "$modle"}}, "request.x: '$modle' is no placeholder; did you"),
    ({"request": REQUEST, "url": "h"}, "url: must begin with http:// or https://"),
    ({"request": REQUEST, "url": "http://a:b@h"}, "url: must not contain a password"),
    ({"request": REQUEST, "row": "x"}, "row: unknown key; did you mean 'rows'?"),
    ({"request": REQUEST, "auth": "basic"}, "auth: must be a mapping, not 'basic'; its keys are: "),
    ({"request": REQUEST, "auth": {"header": "A b"}}, "auth.header: http allows no header"),
    ({"request": REQUEST, "headers": {"X-Api-Key": "sk"}}, "headers.X-Api-Key: cannot be set here"),
    ({"request": REQUEST, "headers": {"X": "\n"}}, "http allows no such value of 'X'"),
    ({"request": REQUEST, "headers": {"Content-Length": "5"}}, "headers: http allows no header"),
    ({"request": REQUEST, "optional": "q"}, "optional: cannot be set for 'q'"),
    ({"request": REQUEST, "optional": ["x"]}, "optional: cannot be set for 'x'"),
    ({"request": REQUEST, "key_variables": "sk-1"}, "give the name of a variable, not the key"),
    ({"request": REQUEST, "path": "/$query"}, "path: '$query' is no placeholder; '$model' is"),
    ({"request": REQUEST, "path": "/a\r\nb"}, "path: must not contain spaces or '#'"),
    ({"request": {**REQUEST, "x": math.nan}}, "request.x: must be a value that JSON has"),
    ({"request": {**REQUEST, "x": ["\ud800"]}}, "request.x[0]: must be a value that JSON has"),
    ({"request": {**REQUEST, "x": date(2020, 1, 1)}}, "request.x: must be a value that JSON has"),
    ({"request": {**REQUEST, "x": {1: 2}}}, "request.x: keys must be words, not 1"),
    ({"request": {**REQUEST, "$query": 1}}, "request.$query: must be a word: placeholders"),
    ({"request": REQUEST, "spans": {"request": {"x": "$nothing"}}}, "spans.request.x: "),
    ({"request": REQUEST, "spans": {"request": {"q": 5}}}, "spans.request: must contain the query"),
    ({"request": REQUEST, "spans": {"request": {"x": math.nan}}}, "spans.request.x: "),
]


@pytest.mark.parametrize(
    ("description", "message"), [pytest.param(*row, id=row[1]) for row in WRONG]
)
def test_wrong_descriptions(description, message):
    config = {"method": {"type": "endpoint", "base_url": "http://h", "api": description}}
    with pytest.raises(ConfigurationError) as caught:
        Reranker.from_config(config)
    assert message in str(caught.value)
    assert "method.api" in str(caught.value)


def test_a_request_that_refers_to_itself():
    request: dict[str, object] = dict(REQUEST)
    request["x"] = request
    with pytest.raises(ConfigurationError, match="request: is nested more than 64 deep"):
        APIS.resolve({"request": request})

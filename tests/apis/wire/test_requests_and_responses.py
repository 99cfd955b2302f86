"""Requests to rerank APIs and the reading of their responses, without I/O."""

from __future__ import annotations

import math

import pytest

from rerank_dialects import DIALECTS, NUMBERS
from secondpass.apis.decision_descriptions import DECISION_APIS
from secondpass.apis.descriptions import APIS
from secondpass.apis.endpoint import Endpoint
from secondpass.apis.wire import RerankRequest, read_scores, request_url, tokens_used
from secondpass.errors import ReplyError

COHERE = APIS["cohere"]


def test_every_api_has_a_dialect():
    assert set(DIALECTS) == set(APIS)


@pytest.mark.parametrize("name", APIS)
def test_record(name):
    """What else there is of an API is compared with what a server is sent and answers."""
    api, dialect = APIS[name], DIALECTS[name]
    assert api.max_documents == dialect.most
    assert bool(api.spans) == bool(dialect.spans)
    address = request_url(api, None if api.url else "http://h", None, "m")
    assert address == (dialect.hosted or f"http://h{dialect.path}")


# ---------------------------------------------------------------------- requests


BODIES = [
    ("cohere", {"options": {"priority": 1}}, {"priority": 1}),
    ("jina", {"options": {"return_documents": True}}, {"return_documents": True}),
    ("jina", {"options": {"top_n": "$count"}}, {"top_n": len(NUMBERS)}),
    ("tei", {"raw_scores": True}, {"raw_scores": True}),
    ("infinity", {"raw_scores": True}, {"raw_scores": True}),
    *((name, {"spans": True}, DIALECTS[name].asks_for_spans) for name in APIS if APIS[name].spans),
    (
        "cohere",
        {"spans": True, "options": {"relevant_spans": {"max_spans": 3, "threshold": 0.5}}},
        {"relevant_spans": {"mode": "enabled", "max_spans": 3, "threshold": 0.5}},
    ),
]


@pytest.mark.parametrize(("name", "settings", "added"), BODIES)
def test_body(name, settings, added):
    endpoint = Endpoint(name, model="m", base_url="http://h", **settings)
    assert endpoint._body(RerankRequest("q", NUMBERS), ()) == {**DIALECTS[name].sends, **added}


URLS = [
    # the API, base_url, path, the URL that is called
    ("cohere", None, None, "https://api.cohere.com/v2/rerank"),
    ("tei", "http://h", None, "http://h/rerank"),
    ("tei", "http://h/proxy//", None, "http://h/proxy/rerank"),
    ("tei", "http://h", "/x/v9/rerank", "http://h/x/v9/rerank"),
    ("tei", "http://h", "x/rerank", "http://h/x/rerank"),
    ("jina", "http://h/v1", None, "http://h/v1/rerank"),
    ("llama_cpp", "http://h/v1/", None, "http://h/v1/rerank"),
    ("mixedbread", "http://h/v1", None, "http://h/v1/reranking"),
    ("cohere", "http://h/v2", None, "http://h/v2/rerank"),
    ("cohere", "http://h/compatibility", None, "http://h/compatibility/v2/rerank"),
    ("jina", "http://h/v10", None, "http://h/v10/v1/rerank"),
    ("tei", "http://h/X", "X/rerank", "http://h/X/X/rerank"),
    ("vllm", "http://v1", None, "http://v1/v1/rerank"),
    ("cohere", "http://h/v2/?api-version=1", None, "http://h/v2/rerank?api-version=1"),
    ("tei", "http://h?a=b", "x?c=d", "http://h/x?c=d&a=b"),
    ("tei", "http://h/", "/$model/x", "http://h/or/m%3F/x"),
    # the whole URL
    ("jina", "http://h/proxy/v1/rerank/", None, "http://h/proxy/v1/rerank"),
    ("tei", "http://h/rerank?a=b", None, "http://h/rerank?a=b"),
    ("elastic", "http://h/_inference/rerank/or/m%3F", None, "http://h/_inference/rerank/or/m%3F"),
    ("cohere", "http://h/v1/rerank", None, "http://h/v1/rerank"),  # of another version
    ("cohere", "http://h/rerank", None, "http://h/rerank/v2/rerank"),
    ("vllm", "http://v1/rerank", None, "http://v1/rerank/v1/rerank"),
    ("tei", "http://rerank", None, "http://rerank/rerank"),
    ("tei", "http://h/prerank", None, "http://h/prerank/rerank"),
    ("tei", "http://h/rerank", "/rerank", "http://h/rerank/rerank"),
]


@pytest.mark.parametrize("name", [*APIS, *DECISION_APIS])
def test_a_whole_url_is_the_base_of_itself(name):
    api = APIS.get(name) or DECISION_APIS[name]
    url = request_url(api, "https://host/proxy", None, "m")
    assert url != "https://host/proxy"
    assert request_url(api, url, None, "m") == url
    assert request_url(api, f"{url}/", None, "m") == url


@pytest.mark.parametrize(("name", "base", "path", "url"), URLS)
def test_url(name, base, path, url):
    assert request_url(APIS[name], base, path, "or/m?") == url


# ---------------------------------------------------------------------- responses


def read(rows, count, kind="probability"):
    """The scores of the first texts in a response with these pairs of index and score."""
    dialect = DIALECTS["cohere"]
    return read_scores(dialect.reply(dialect.rows_of(rows)), COHERE, "abcd"[:count], kind)


VALUES = [
    # kind, score, what is read (None: refused), outside the range
    ("probability", 1, 1.0, False),
    ("probability", 1.00005, 1.00005, False),
    ("probability", -0.00005, -0.00005, False),
    ("probability", 1.01, 1.01, True),
    ("probability", -0.01, -0.01, True),
    ("probability", math.nan, None, False),
    ("probability", math.inf, None, False),
    ("probability", None, None, False),
    ("probability", "0.9", None, False),
    ("probability", [0.9], None, False),
    ("similarity", -1, -1.0, False),
    ("similarity", -1.01, -1.01, True),
    ("logit", 42, 42.0, False),
    ("logit", -11.3, -11.3, False),
    ("unbounded", -math.inf, None, False),
]


@pytest.mark.parametrize(("kind", "score", "value", "outside"), VALUES)
def test_values(kind, score, value, outside):
    scores = read([(0, score), (1, 0.5)], 2, kind)
    assert scores.values == (value, 0.5)
    assert scores.refused == ((0,) if value is None else ())
    assert scores.outside == ((value,) if outside else ())


ROWS = {
    # rows; values of three documents, refused, unknown
    "one missing": ([(1, 0.9), (2, 0.5)], (None, 0.9, 0.5), (), 0),
    "unknown index": ([(0, 0.3), (3, 0.9), (2, 0.5)], (0.3, None, 0.5), (), 1),
    "negative index": ([(0, 0.3), (-1, 0.9), (2, 0.5)], (0.3, None, 0.5), (), 1),
    "string index": ([(0, 0.3), ("1", 0.9)], (0.3, None, None), (), 1),
    "boolean index": ([(0, 0.3), (True, 0.9)], (0.3, None, None), (), 1),
    "float index": ([(0, 0.3), (1.0, 0.9)], (0.3, None, None), (), 1),
    "huge index": ([(0, 0.3), (10**9, 0.9), (math.inf, 1), ("1e9", 1)], (0.3, None, None), (), 3),
    "twice the same": ([(0, 0.3), (0, 0.3)], (0.3, None, None), (), 0),
    "twice, differently": ([(0, 0.3), (0, 0.4), (1, 0.9)], (None, 0.9, None), (0,), 0),
    "twice, once unusable": ([(0, 0.3), (0, None), (1, 0.9)], (None, 0.9, None), (0,), 0),
    "two refused": ([(1, None), (0, None), (2, 0.5)], (None, None, 0.5), (0, 1), 0),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    rows, values, refused, unknown = ROWS[name]
    scores = read(rows, 3)
    assert (scores.values, scores.refused, scores.unknown) == (values, refused, unknown)


BASES = [
    # indices of four documents; whether they are refused
    ([1, 2, 3, 4], True),
    ([1, 2, 3, 4.0], True),
    ([4, 1], True),
    ([1, 2, 3, " 4.0"], True),
    ([-1, 0, 1, 2], True),
    ([0, 1, "-1", 2], True),
    (["0", 1, 2, 3, 4], True),
    ([0.0, 1, 2, 4], True),
    ([0, 1, 2, 4], False),
    ([0, 1, 2, 3, -1], False),
    ([1, 2, 3], False),
    ([0, 1, 2, 40], False),
    ([1, 2, 3, "4.5"], False),
    ([1, 2, 3, 4.5], False),
]


@pytest.mark.parametrize(("indices", "refused"), BASES)
def test_base_of_indices(indices, refused):
    rows = [(index, 0.9) for index in indices]
    if refused:
        with pytest.raises(ReplyError, match="do not count from 0") as caught:
            read(rows, 4)
        assert caught.value.code == "reply_refused"
    else:
        places = [place for place, value in enumerate(read(rows, 4).values) if value]
        assert places == [index for index in indices if index in range(4)]


@pytest.mark.parametrize("name", ["cohere", "tei", "deepinfra"])
@pytest.mark.parametrize("rows", [None, {}, "no", 5, {"0": 0.5}])
def test_no_list(name, rows):
    body = {DIALECTS[name].rows: rows} if DIALECTS[name].rows else rows
    with pytest.raises(ReplyError, match="no list of results"):
        read_scores(body, APIS[name], "abc", "probability")


@pytest.mark.parametrize("rows", [[], [None], [[0, 0.5]], [0.5, 0.3], [{"index": 0}]])
def test_no_usable_score(rows):
    with pytest.raises(ReplyError, match="no usable score"):
        read_scores({"results": rows}, COHERE, "ab", "probability")


# ---------------------------------------------------------------------- usage and limits

USAGE = [
    ({"usage": {"total_tokens": 77, "prompt_tokens": 70}}, 77),
    ({"usage": {"prompt_tokens": 70}}, 70),
    ({"usage": {"total_tokens": None, "prompt_tokens": 7}}, 7),
    ({"usage": {"total_tokens": 0}}, 0),
    *(({"usage": {"total_tokens": count}}, None) for count in ("5", -5, True, 5.5)),
    *(({"usage": usage}, None) for usage in ({}, [], None)),
    ({"meta": {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": 31}}}, 31),
    ({"usage": {}, "meta": {"tokens": {"input_tokens": 31}}}, 31),
    ({"meta": {"tokens": None}}, None),
    *((body, None) for body in ({}, [], None)),
]


@pytest.mark.parametrize(("body", "tokens"), USAGE)
def test_tokens_used(body, tokens):
    assert tokens_used(body) == tokens

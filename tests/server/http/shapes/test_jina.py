"""Jina's API, and what servers that follow it do otherwise."""

import pytest

from secondpass_server.http.errors import RequestError
from secondpass_server.http.shapes import SHAPES
from shape_answers import read

QUERY, TEXTS = "q", ["a", "ccc", "bb"]


def test_infinity_has_documents_as_strings(lengths):
    body = {"query": QUERY, "documents": TEXTS, "return_documents": True}
    rows = lengths.post("/infinity/rerank", body).json()["results"]
    assert [row["document"] for row in rows] == ["ccc", "bb", "a"]


def test_infinity_is_as_its_schema_demands(lengths):
    """Its client demands both numbers, this object, and errors of requests as lists."""
    found = lengths.post("/infinity/rerank", {"query": QUERY, "documents": TEXTS}).json()
    assert (found["object"], found["usage"]) == (
        "rerank",
        {"prompt_tokens": 0, "total_tokens": 0},
    )
    refused = lengths.post("/infinity/rerank", {"query": QUERY})
    assert refused.status_code == 422
    assert refused.json()["detail"] == [
        {"loc": ["body"], "msg": "documents: is required", "type": "invalid_request"}
    ]
    assert SHAPES["infinity"].error(RequestError(503, "x")) == {"detail": "x"}


@pytest.mark.parametrize(
    ("name", "returned"),
    [("jina", True), ("vllm", True), ("infinity", False), ("llama_cpp", False)],
)
def test_documents_by_default(name, returned):
    shape = SHAPES[name]
    assert read(shape, query=QUERY, documents=TEXTS).return_documents == returned
    for wanted in (True, False):
        request = read(shape, query=QUERY, documents=TEXTS, return_documents=wanted)
        assert request.return_documents == wanted


@pytest.mark.parametrize(
    ("name", "unit"), [("jina", False), ("vllm", False), ("infinity", True), ("llama_cpp", False)]
)
def test_range_of_scores(name, unit):
    shape = SHAPES[name]
    assert shape.unit_scores(read(shape, query=QUERY, documents=TEXTS)) == unit
    assert not shape.unit_scores(read(shape, query=QUERY, documents=TEXTS, raw_scores=True))

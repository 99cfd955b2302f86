"""Jina's API, and what servers that follow it do otherwise."""

import pytest

from secondpass.adapters.http_server.errors import RequestError
from secondpass.adapters.http_server.shapes import SHAPES
from shape_answers import read

QUERY, TEXTS = "q", ["a", "ccc", "bb"]


def test_infinity_has_documents_as_strings(lengths):
    body = {"query": QUERY, "documents": TEXTS, "return_documents": True}
    rows = lengths.post("/infinity/rerank", body).json()["results"]
    assert [row["document"] for row in rows] == ["ccc", "bb", "a"]


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


def test_errors_of_vllm_are_those_of_openai():
    error = SHAPES["vllm"].error(RequestError(None, "x", "kind"))
    assert error == {"error": {"message": "x", "type": "kind", "code": 400}}

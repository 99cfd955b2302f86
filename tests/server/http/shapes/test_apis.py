"""What one API alone reads or writes; ``../test_shapes.py`` has what all have, over HTTP."""

from dataclasses import replace

import pytest

from fakes import ByTable
from secondpass import Reranker
from secondpass_server.http.errors import RequestError
from secondpass_server.http.shapes import COMMON, SHAPES
from shape_answers import TEXTS, answer_of, read

ALL = {**SHAPES, "common": COMMON}
INPUTS = [{"title": "t", "text": "x"}]
READ = [
    # API, body, members of the request
    (
        "common",
        {"documents": [{"t": "a"}], "rank_fields": ["t"], "instruction": "new ones"},
        {"texts": ["a"], "instruction": "new ones"},
    ),
    (
        "mixedbread",
        {"input": TEXTS, "top_k": 2, "return_input": True},
        {"texts": TEXTS, "top_n": 2, "return_documents": True},
    ),
    ("mixedbread", {"input": INPUTS, "rank_fields": ["title"]}, {"texts": ["t"]}),
    ("mixedbread", {"input": INPUTS, "rank_fields": ["title", "text"]},
     {"texts": ["title: t\ntext: x"]}),
    ("voyage", {"documents": TEXTS, "top_k": 2}, {"top_n": 2, "return_documents": False}),
    # Cutting is not to be turned off.
    ("voyage", {"documents": TEXTS, "truncation": True}, {"unused": ()}),
    ("voyage", {"documents": TEXTS, "truncation": False}, {"unused": ("truncation",)}),
    ("tei", {"texts": TEXTS, "truncate": True}, {"unused": ()}),
    ("tei", {"texts": TEXTS, "truncate": False}, {"unused": ("truncate",)}),
    # What LiteLLM sends besides.
    (
        "tei",
        {"texts": TEXTS, "top_n": 2, "return_documents": True},
        {"top_n": 2, "return_documents": False, "unused": ()},
    ),
    ("jina", {"documents": TEXTS}, {"return_documents": True, "raw_scores": False}),
    ("jina", {"documents": TEXTS, "raw_scores": True}, {"raw_scores": True}),
    ("jina", {"documents": TEXTS, "return_documents": False}, {"return_documents": False}),
    ("vllm", {"documents": TEXTS}, {"return_documents": True}),
    ("infinity", {"documents": TEXTS}, {"return_documents": False}),
    ("infinity", {"documents": TEXTS, "return_documents": True}, {"return_documents": True}),
    ("llama_cpp", {"documents": TEXTS}, {"return_documents": False}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "body", "members"), READ)
def test_what_is_read(api, body, members):
    request = read(ALL[api], query="q", **body)
    assert {name: getattr(request, name) for name in members} == members


def test_documents_of_voyage_are_no_objects():
    with pytest.raises(RequestError, match="must be a string, not an object"):
        read(SHAPES["voyage"], query="q", documents=[{"text": "a"}])


UNKNOWN = {"total_tokens": 0, "prompt_tokens": 0}
"""Clients of infinity and vLLM demand numbers; the report says what is known."""
WRITTEN = [
    # API, body, members of the response, rows and their first document
    ("jina", {"documents": TEXTS}, {"usage": UNKNOWN}, "results", {"text": "ccc"}),
    ("jina", {"documents": [{"text": "a", "n": 1}]}, {}, "results", {"text": "a", "n": 1}),
    ("infinity", {"documents": TEXTS, "return_documents": True},
     {"object": "rerank", "usage": UNKNOWN}, "results", "ccc"),
    ("voyage", {"documents": TEXTS, "return_documents": True}, {"usage": UNKNOWN}, "data", "ccc"),
    ("mixedbread", {"input": TEXTS, "top_k": 2, "return_input": True},
     {"top_k": 2, "return_input": True}, "data", "ccc"),
    ("mixedbread", {"input": TEXTS}, {"top_k": 3, "return_input": False}, "data", None),
]  # fmt: skip


@pytest.mark.parametrize(("api", "body", "members", "rows", "document"), WRITTEN)
def test_what_is_written(api, body, members, rows, document):
    response = ALL[api].response(answer_of(read(ALL[api], query="q", **body)))
    assert members.items() <= response.items()
    assert response[rows][0].get("document", response[rows][0].get("input")) == document


def test_members_of_all_are_written_without_a_prefix():
    response = COMMON.response(answer_of(read(COMMON, query="q", documents=TEXTS)))
    assert set(response) == {"id", "model", "results", "usage", "meta", "secondpass"}


def test_tokens_that_are_known():
    answer = answer_of(read(SHAPES["jina"], query="q", documents=TEXTS))
    usage = replace(answer.ranking.report.usage, input_tokens=7)
    ranking = replace(answer.ranking, report=replace(answer.ranking.report, usage=usage))
    written = SHAPES["jina"].response(replace(answer, ranking=ranking))
    assert written["usage"] == {"total_tokens": 7, "prompt_tokens": 7}


@pytest.mark.parametrize(
    ("api", "status", "members"),
    [
        ("common", None, {"message": "x", "detail": "x", "error": "x", "error_type": "kind"}),
        ("infinity", 503, {"detail": "x"}),
        ("tei", None, {"error": "x", "error_type": "Validation"}),
        ("tei", 413, {"error": "x", "error_type": "Validation"}),
        ("tei", 429, {"error": "x", "error_type": "Overloaded"}),
        ("tei", 503, {"error": "x", "error_type": "Unhealthy"}),
    ],
)
def test_errors(api, status, members):
    assert ALL[api].error(RequestError(status, "x", "kind")) == members


def test_clients_of_tei_learn_the_largest_batch(serving):
    server = serving(Reranker(ByTable()), max_candidates=2)
    response = server.post("/rerank", {"query": "q", "texts": TEXTS})
    assert response.status_code == 422
    assert response.json()["error"] == "batch size 3 > maximum allowed batch size 2"

"""What each API sends and gets, field by field."""

import json

import pytest

from fakes import Answering, ByTable
from secondpass import Reranker
from secondpass_server.http.fields import Fields
from secondpass_server.http.settings import ServerSettings
from secondpass_server.http.shapes import shape_of

QUERY, TEXTS = "q", ["a", "ccc", "bb"]
BEST_FIRST = [1, 2, 0]
RANKS = [1.0, 2 / 3, 1 / 3]
LENGTHS = [3.0, 2.0, 1.0]

# Bodies as the clients write them: cohere 6.1, voyageai 0.3, litellm 1.106, jina-haystack 2.0,
# huggingface-api-haystack 3.1, llama-index-postprocessor-tei-rerank 0.6.
REQUESTS = {
    "cohere SDK, version 2": (
        "/v2/rerank",
        {"model": "rerank-v3.5", "query": QUERY, "documents": TEXTS, "top_n": 2},
        "results relevance_score",
        RANKS,
    ),
    "cohere SDK, version 1": (
        "/cohere/v1/rerank",
        {
            "query": QUERY,
            "documents": [{"text": text} for text in TEXTS],
            "model": "rerank-v3.5",
            "return_documents": True,
        },
        "results relevance_score document",
        RANKS,
    ),
    "cohere, rank_fields": (
        "/cohere/v1/rerank",
        {
            "query": QUERY,
            "documents": [{"title": text, "n": 1, "x": "long" * 9} for text in TEXTS],
            "rank_fields": ["title", "n"],
        },
        "results relevance_score",
        RANKS,
    ),
    "haystack jina": (
        "/v1/rerank",
        {"query": QUERY, "documents": TEXTS, "model": "jina-reranker", "top_n": None},
        "results relevance_score",
        RANKS,
    ),
    "raw scores": (
        "/v1/rerank",
        {"query": QUERY, "documents": TEXTS, "raw_scores": True},
        "results relevance_score",
        LENGTHS,
    ),
    "jina, documents by default": (
        "/jina/v1/rerank",
        {"query": QUERY, "documents": TEXTS, "model": "m"},
        "results relevance_score document",
        LENGTHS,
    ),
    "voyage SDK": (
        "/v1/rerank",
        {"query": QUERY, "documents": TEXTS, "model": "m", "top_k": None, "truncation": True},
        "data relevance_score",
        RANKS,
    ),
    "haystack tei": (
        "/rerank",
        {"query": QUERY, "texts": TEXTS, "raw_scores": False},
        " score",
        RANKS,
    ),
    "tei, raw scores": (
        "/tei/rerank",
        {"query": QUERY, "texts": TEXTS, "raw_scores": True, "return_text": True},
        " score text",
        LENGTHS,
    ),
    "litellm huggingface": (
        "/rerank",
        {
            "raw_scores": False,
            "truncate": False,
            "truncation_direction": "Right",
            "texts": TEXTS,
            "query": QUERY,
            "top_n": 2,
        },
        " score",
        RANKS,
    ),
    "vllm": (
        "/vllm/v2/rerank",
        {"query": QUERY, "documents": TEXTS, "model": "m"},
        "results relevance_score document",
        LENGTHS,
    ),
    "infinity": (
        "/infinity/rerank",
        {"query": QUERY, "documents": TEXTS, "model": "m", "return_documents": True},
        "results relevance_score document",
        RANKS,
    ),
    "llama.cpp": (
        "/llama_cpp/v1/rerank",
        {"query": QUERY, "documents": TEXTS},
        "results relevance_score",
        LENGTHS,
    ),
    "mixedbread": (
        "/v1/reranking",
        {"query": QUERY, "input": TEXTS, "model": "m", "return_input": True, "top_k": 3},
        "data score input",
        LENGTHS,
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_requests_and_responses(case, lengths):
    path, body, form, scores = REQUESTS[case]
    rows_name, score, *document = form.split(" ")
    response = lengths.post(path, body)
    assert response.status_code == 200
    rows = response.json()[rows_name] if rows_name else response.json()
    count = body.get("top_n") or body.get("top_k") or 3
    assert [row["index"] for row in rows] == BEST_FIRST[:count]
    expected = RANKS if scores == RANKS and count == 3 else scores
    if count == 2:
        expected = [1.0, 0.5]
    assert [row[score] for row in rows] == pytest.approx(expected)
    documents = body.get("documents") or body.get("texts") or body.get("input")
    for row in rows:
        assert set(row) == {"index", score, *document}
        if document:
            text = TEXTS[row["index"]]
            assert row[document[0]] in (text, {"text": text}, documents[row["index"]])
    rule = "rank" if expected != LENGTHS else "rerank"
    assert response.headers["secondpass-scores"] == rule
    assert response.headers["secondpass-status"] == "ok"


def test_members_that_clients_read(lengths):
    """The Voyage SDK and infinity's client read the tokens, Haystack's Jina ranker the model."""
    body = {"query": QUERY, "documents": TEXTS, "top_k": 1}
    found = lengths.post("/v1/rerank", body).json()
    unknown = {"total_tokens": 0, "prompt_tokens": 0}
    assert found["usage"] == unknown
    found = lengths.post("/v1/rerank", {"query": QUERY, "documents": TEXTS}).json()
    assert (found["model"], found["usage"]) == ("m", unknown)
    assert found["meta"] == {"api_version": {"version": "2"}}
    assert found["id"]


def test_report_in_headers_and_body(serving):
    scores = Answering(lambda count: [0.5, float("nan"), 0.7])
    server = serving(Reranker(scores))
    body = {"query": QUERY, "documents": TEXTS, "max_tokens_per_doc": 9, "odd name\n": 1}
    response = server.post("/cohere/v2/rerank", body)
    report = response.json()["secondpass"]
    assert report["status"] == response.headers["secondpass-status"] == "partial"
    assert response.headers["secondpass-issues"] == "score_not_finite, field_not_used"
    assert [issue["code"] for issue in report["issues"]] == ["score_not_finite", "field_not_used"]
    assert report["issues"][0]["positions"] == [1]
    assert report["issues"][1]["message"].endswith("no effect: max_tokens_per_doc")
    warnings = response.json()["meta"]["warnings"]
    assert [warning.partition(":")[0] for warning in warnings] == [
        "score_not_finite",
        "field_not_used",
    ]
    assert report["usage"]["pairs"] == 3
    assert "pairs=3" in response.headers["secondpass-usage"]
    assert [row["index"] for row in response.json()["results"]] == [2, 0, 1]  # none is lost


def test_what_a_floor_leaves_out_is_absent(serving):
    server = serving(Reranker(ByTable(), floor=2))
    response = server.post("/jina/v1/rerank", {"query": QUERY, "documents": TEXTS})
    found = response.json()
    assert [row["index"] for row in found["results"]] == [1, 2]
    assert found["secondpass"]["left_out"] == {"floor": 1}


def test_what_a_gate_leaves_out(serving):
    server = serving(Reranker(ByTable(), when={"words": {"below": 1}}))
    response = server.post("/jina/v1/rerank", {"query": "a", "documents": TEXTS})
    report = response.json()["secondpass"]
    assert report["skipped"] == {"reason": "words 1 is not below 1", "pairs": 3, "depth": 0}
    assert response.headers["secondpass-skipped"] == "3"
    assert [row["index"] for row in response.json()["results"]] == [0, 1, 2]


def test_nothing_relevant(serving):
    server = serving(Reranker(ByTable(), floor={"at": 99, "on": "rerank", "nothing": 99}))
    response = server.post("/jina/v1/rerank", {"query": QUERY, "documents": TEXTS})
    found = response.json()
    assert (found["results"], found["secondpass"]["nothing_relevant"]) == ([], True)
    assert response.headers["secondpass-nothing-relevant"] == "true"


ERRORS = {
    "common": (
        "/v1/rerank",
        400,
        {"message": "query: is required"},
        {"detail": "query: is required"},
    ),
    "cohere": ("/cohere/v2/rerank", 400, {"message": "query: is required"}),
    "jina": ("/jina/v1/rerank", 422, {"detail": "query: is required"}),
    "voyage": ("/voyage/v1/rerank", 400, {"detail": "query: is required"}),
    "tei": (
        "/tei/rerank",
        422,
        {"error": "query: is required", "error_type": "Validation"},
    ),
    "vllm": (
        "/vllm/v1/rerank",
        400,
        {"error": {"message": "query: is required", "type": "invalid_request", "code": 400}},
    ),
    "infinity": (
        "/infinity/rerank",
        422,
        {"detail": [{"loc": ["body"], "msg": "query: is required", "type": "invalid_request"}]},
    ),
    "llama_cpp": ("/llama_cpp/rerank", 400, {}),
    "mixedbread": ("/mixedbread/v1/reranking", 422, {"detail": "query: is required"}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_have_the_form_of_the_api(name, lengths):
    path, status, *parts = ERRORS[name]
    body = {"documents": TEXTS, "texts": TEXTS, "input": TEXTS}
    response = lengths.post(path, body)
    assert response.status_code == status
    for part in parts:
        assert part.items() <= response.json().items()


BODIES = {
    "texts": ({"texts": []}, "tei"),
    "top_k": ({"documents": [], "top_k": None}, "voyage"),
    "documents": ({"documents": []}, "common"),
    "both": ({"documents": [], "texts": []}, "common"),
}


@pytest.mark.parametrize("case", BODIES)
def test_the_body_decides_without_a_prefix(case):
    body, name = BODIES[case]
    assert shape_of(Fields(body, ServerSettings())).name == name


def test_documents_with_lone_surrogates_are_returned(lengths):
    raw = json.dumps({"query": QUERY, "documents": ["a\ud800"], "return_documents": True})
    response = lengths.send("/v1/rerank", raw.encode())
    assert response.json()["results"][0]["document"] == {"text": "a\ud800"}

"""What each API sends and gets, field by field."""

import json
from dataclasses import replace

import pytest

from fakes import Answering, ByTable
from secondpass import Reranker
from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields
from secondpass_server.http.settings import ServerSettings
from secondpass_server.http.shapes import COMMON, SHAPES, Answer, shape_of

ALL = {**SHAPES, "common": COMMON}
TEXTS = ["a", "ccc", "bb"]
QUERY = "q"
BEST_FIRST = [1, 2, 0]
RANKS = [1.0, 2 / 3, 1 / 3]
LENGTHS = [3.0, 2.0, 1.0]
CONTENTS = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
FIELDS = [{"title": text, "n": 1, "x": "long" * 9} for text in TEXTS]

# Bodies as the clients write them: cohere 6.1, voyageai 0.3, litellm 1.106, jina-haystack 2.0,
# huggingface-api-haystack 3.1, llama-index-postprocessor-tei-rerank 0.6, RAGFlow for Xinference,
# and Dify for vLLM.
REQUESTS = {
    # path, body besides the query, members of the response and of a row, scores
    "cohere SDK, version 2": ("/v2/rerank",
        {"model": "rerank-v3.5", "documents": TEXTS, "top_n": 2},
        "results relevance_score", [1.0, 0.5]),
    "cohere SDK, version 1": ("/cohere/v1/rerank",
        {"documents": [{"text": text} for text in TEXTS], "model": "m", "return_documents": True},
        "results relevance_score document", RANKS),
    "cohere, rank_fields": ("/cohere/v1/rerank",
        {"documents": FIELDS, "rank_fields": ["title", "n"]}, "results relevance_score", RANKS),
    "haystack jina": ("/v1/rerank", {"documents": TEXTS, "model": "jina-reranker", "top_n": None},
        "results relevance_score", RANKS),
    "raw scores": ("/v1/rerank", {"documents": TEXTS, "raw_scores": True},
        "results relevance_score", LENGTHS),
    "jina, documents by default": ("/jina/v1/rerank", {"documents": TEXTS, "model": "m"},
        "results relevance_score document", LENGTHS),
    "voyage SDK": ("/v1/rerank",
        {"documents": TEXTS, "model": "m", "top_k": None, "truncation": True},
        "data relevance_score", RANKS),
    "haystack tei": ("/rerank", {"texts": TEXTS, "raw_scores": False}, " score", RANKS),
    "tei, raw scores": ("/tei/rerank", {"texts": TEXTS, "raw_scores": True, "return_text": True},
        " score text", LENGTHS),
    "litellm huggingface": ("/rerank",
        {"raw_scores": False, "truncate": False, "truncation_direction": "Right", "texts": TEXTS,
         "top_n": 2}, " score", [1.0, 0.5]),
    "vllm": ("/vllm/v2/rerank", {"documents": TEXTS, "model": "m"},
        "results relevance_score document", LENGTHS),
    "ragflow": ("/v1/rerank",
        {"model": "m", "return_documents": "true", "return_len": "true", "documents": TEXTS},
        "results relevance_score document", RANKS),
    "top_n as a string": ("/v1/rerank", {"documents": TEXTS, "top_n": "2"},
        "results relevance_score", [1.0, 0.5]),
    "dify, contents": ("/v1/rerank",
        {"model": "m", "documents": CONTENTS, "top_n": 3, "return_documents": True},
        "results relevance_score document", RANKS),
    "vllm, contents": ("/vllm/v1/rerank", {"model": "m", "documents": CONTENTS},
        "results relevance_score document", LENGTHS),
    "infinity": ("/infinity/rerank", {"documents": TEXTS, "model": "m", "return_documents": True},
        "results relevance_score document", RANKS),
    "llama.cpp": ("/llama_cpp/v1/rerank", {"documents": TEXTS}, "results relevance_score", LENGTHS),
    "mixedbread": ("/v1/reranking",
        {"input": TEXTS, "model": "m", "return_input": True, "top_k": 3},
        "data score input", LENGTHS),
}  # fmt: skip


@pytest.mark.parametrize("case", REQUESTS)
def test_requests_and_responses(case, lengths):
    path, body, form, scores = REQUESTS[case]
    rows_name, score, *document = form.split(" ")
    response = lengths.post(path, {"query": QUERY, **body})
    assert response.status_code == 200
    rows = response.json()[rows_name] if rows_name else response.json()
    assert [row["index"] for row in rows] == BEST_FIRST[: len(scores)]
    assert [row[score] for row in rows] == pytest.approx(scores)
    documents = body.get("documents") or body.get("texts") or body.get("input")
    for row in rows:
        assert set(row) == {"index", score, *document}
        if document:
            text = TEXTS[row["index"]]
            assert row[document[0]] in (text, {"text": text}, documents[row["index"]])
    assert response.headers["secondpass-scores"] == ("rerank" if scores == LENGTHS else "rank")
    assert response.headers["secondpass-status"] == "ok"


@pytest.mark.parametrize("path", ["/score", "/v1/score", "/vllm/score", "/vllm/v1/score"])
@pytest.mark.parametrize(
    ("body", "scores"),
    [
        ({"text_1": QUERY, "text_2": TEXTS}, [1.0, 3.0, 2.0]),
        ({"text_1": [QUERY], "text_2": TEXTS}, [1.0, 3.0, 2.0]),
        ({"text_1": QUERY, "text_2": "ccc"}, [3.0]),
        ({"data_1": QUERY, "data_2": TEXTS}, [1.0, 3.0, 2.0]),
        ({"queries": QUERY, "documents": TEXTS, "model": "m"}, [1.0, 3.0, 2.0]),
        ({"queries": [QUERY], "items": TEXTS}, [1.0, 3.0, 2.0]),
        ({"text_1": QUERY, "text_2": CONTENTS}, [1.0, 3.0, 2.0]),
        ({"text_1": {"content": QUERY}, "text_2": CONTENTS[1]}, [3.0]),
        ({"text_1": [{"text": QUERY}], "text_2": CONTENTS}, [1.0, 3.0, 2.0]),
    ],
)
def test_scores_in_the_order_of_the_request(path, body, scores, lengths):
    """As vLLM's documentation has them."""
    response = lengths.post(path, body).json()
    assert (response["object"], response["model"]) == ("list", "m")
    assert response["usage"] == {"prompt_tokens": 0, "total_tokens": 0}
    assert response["data"] == [
        {"index": index, "object": "score", "score": score} for index, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text_1": ["a", "b"], "text_2": TEXTS}, "text_1: must be one text; send a request for"),
        ({"text_1": [], "text_2": TEXTS}, "text_1: must not be empty"),
        ({"text_1": [3], "text_2": TEXTS}, "text_1[0]: must be a string or an object with"),
        ({"text_1": " ", "text_2": TEXTS}, "text_1: must not be blank"),
        ({"text_1": QUERY}, "text_2: is required"),
        ({"text_2": TEXTS}, "text_1: is required"),
        ({"text_1": QUERY, "text_2": [{"content": []}]}, "text_2[0].content: must not be"),
        ({"text_1": {}, "text_2": TEXTS}, "text_1.text: is required"),
        ({"text_1": ["a" * 20_001], "text_2": TEXTS}, "text_1: has 20001 characters"),
    ],
)
def test_requests_for_scores_that_are_wrong(body, message, lengths):
    response = lengths.post("/v1/score", body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)


# ---------------------------------------------------------------------- what one API alone has


def read(api, **body):
    """The request of an API with this body."""
    return ALL[api].read(Fields({"query": QUERY, **body}, ServerSettings()))


def answer_of(request):
    """The answer that puts the longest text first."""
    ranking = Reranker(ByTable()).rerank(request.query, request.texts, top_k=request.top_n)
    scores = [0.9, 0.5, 0.1][: len(ranking)]
    return Answer("id", "m", request, ranking, scores, "rank", {"status": "ok", "issues": []})


INPUTS = [{"title": "t", "text": "x"}]
READ = [
    # API, body, members of the request
    ("common", {"documents": [{"t": "a"}], "rank_fields": ["t"], "instruction": "new ones"},
     {"texts": ["a"], "instruction": "new ones"}),
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
    ("tei", {"texts": TEXTS, "top_n": 2, "return_documents": True},
     {"top_n": 2, "return_documents": False, "unused": ()}),
    ("jina", {"documents": TEXTS, "return_documents": False}, {"return_documents": False}),
    ("infinity", {"documents": TEXTS}, {"return_documents": False}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "body", "members"), READ)
def test_what_is_read(api, body, members):
    request = read(api, **body)
    assert {name: getattr(request, name) for name in members} == members


def test_documents_of_voyage_are_no_objects():
    with pytest.raises(RequestError, match="must be a string, not an object"):
        read("voyage", documents=[{"text": "a"}])


UNKNOWN = {"total_tokens": 0, "prompt_tokens": 0}
"""Clients of infinity, vLLM and Voyage demand numbers; the report says what is known."""
WRITTEN = [
    # API, body, members of the response, rows and their first document
    ("jina", {"documents": TEXTS}, {"usage": UNKNOWN, "model": "m"}, "results", {"text": "ccc"}),
    ("jina", {"documents": [{"text": "a", "n": 1}]}, {}, "results", {"text": "a", "n": 1}),
    ("infinity", {"documents": TEXTS, "return_documents": True},
     {"object": "rerank", "usage": UNKNOWN}, "results", "ccc"),
    ("voyage", {"documents": TEXTS, "return_documents": True}, {"usage": UNKNOWN}, "data", "ccc"),
    ("mixedbread", {"input": TEXTS, "top_k": 2, "return_input": True},
     {"top_k": 2, "return_input": True}, "data", "ccc"),
    ("mixedbread", {"input": TEXTS}, {"top_k": 3, "return_input": False}, "data", None),
    ("common", {"documents": TEXTS},
     {"id": "id", "model": "m", "usage": UNKNOWN, "meta": {"api_version": {"version": "2"}}},
     "results", None),
]  # fmt: skip


@pytest.mark.parametrize(("api", "body", "members", "rows", "document"), WRITTEN)
def test_what_is_written(api, body, members, rows, document):
    response = ALL[api].response(answer_of(read(api, **body)))
    assert members.items() <= response.items()
    assert response[rows][0].get("document", response[rows][0].get("input")) == document
    assert "secondpass" in response


def test_tokens_that_are_known():
    answer = answer_of(read("jina", documents=TEXTS))
    usage = replace(answer.ranking.report.usage, input_tokens=7)
    ranking = replace(answer.ranking, report=replace(answer.ranking.report, usage=usage))
    known = replace(answer, ranking=ranking)
    assert SHAPES["jina"].response(known)["usage"] == {"total_tokens": 7, "prompt_tokens": 7}
    assert SHAPES["cohere"].response(known)["meta"]["tokens"] == {"input_tokens": 7}


def test_documents_with_lone_surrogates_are_returned(lengths):
    raw = json.dumps({"query": QUERY, "documents": ["a\ud800"], "return_documents": True})
    response = lengths.send("/v1/rerank", raw.encode())
    assert response.json()["results"][0]["document"] == {"text": "a\ud800"}


# ---------------------------------------------------------------------- reports


def test_report_in_headers_and_body(serving):
    server = serving(Reranker(Answering(lambda count: [0.5, float("nan"), 0.7])))
    body = {"query": QUERY, "documents": TEXTS, "max_tokens_per_doc": 9, "odd name\n": 1}
    response = server.post("/cohere/v2/rerank", body)
    report = response.json()["secondpass"]
    assert report["status"] == response.headers["secondpass-status"] == "partial"
    codes = ["score_not_finite", "field_not_used"]
    assert response.headers["secondpass-issues"] == ", ".join(codes)
    assert [issue["code"] for issue in report["issues"]] == codes
    assert report["issues"][0]["positions"] == [1]
    assert report["issues"][1]["message"].endswith("no effect: max_tokens_per_doc")
    warnings = response.json()["meta"]["warnings"]
    assert [warning.partition(":")[0] for warning in warnings] == codes
    assert report["usage"]["pairs"] == 3
    assert "pairs=3" in response.headers["secondpass-usage"]
    assert [row["index"] for row in response.json()["results"]] == [2, 0, 1]  # none is lost


def test_what_a_threshold_or_a_condition_leaves_out(serving):
    def answer(query=QUERY, **settings):
        server = serving(Reranker(ByTable(), **settings))
        response = server.post("/jina/v1/rerank", {"query": query, "documents": TEXTS})
        body = response.json()
        return [row["index"] for row in body["results"]], body["secondpass"], response.headers

    indices, report, _ = answer(floor=2)
    assert (indices, report["left_out"]) == ([1, 2], {"floor": 1})
    indices, report, headers = answer("a", when={"words": {"below": 1}})
    assert report["skipped"] == {"reason": "words 1 is not below 1", "pairs": 3, "depth": 0}
    assert (indices, headers["secondpass-skipped"]) == ([0, 1, 2], "3")
    indices, report, headers = answer(floor={"at": 99, "on": "rerank", "nothing": 99})
    assert (indices, report["nothing_relevant"]) == ([], True)
    assert headers["secondpass-nothing-relevant"] == "true"


MANY = ["no fruit"] * 150 + ["a red banana"]
"""Of a request; the last is the best."""
PATHS = {
    # path: its fields of documents, rows and scores
    "/v2/rerank": ("documents", "results", "relevance_score"),
    "/cohere/v2/rerank": ("documents", "results", "relevance_score"),
    "/jina/v1/rerank": ("documents", "results", "relevance_score"),
    "/voyage/v1/rerank": ("documents", "data", "relevance_score"),
    "/mixedbread/v1/reranking": ("input", "data", "score"),
    "/tei/rerank": ("texts", "", "score"),
    "/vllm/score": ("data_2", "data", "score"),
}


def rows_of(server, path):
    """The response to a request with many documents, and its rows, best first."""
    documents, rows, score = PATHS[path]
    query = "data_1" if documents == "data_2" else "query"
    response = server.post(path, {query: "banana", documents: MANY})
    body = response.json()
    pairs = [(row[score], row["index"]) for row in (body[rows] if rows else body)]
    return response, sorted(pairs, key=lambda pair: -pair[0])  # as clients that sort again


@pytest.mark.parametrize("path", PATHS)
def test_all_documents_of_a_request_are_scored(path, serving):
    response, rows = rows_of(serving(Reranker("lexical", depth=None)), path)
    assert rows[0][1] == 150
    assert rows[0][0] > rows[1][0]
    assert response.headers["secondpass-depth"] == "151/151"
    assert "secondpass-issues" not in response.headers


NEGATIVE = {"no fruit": -8.0, "a red banana": -2.0}


@pytest.mark.parametrize("kind", ["similarity", "logit", "unbounded"])
@pytest.mark.parametrize("path", PATHS)
def test_documents_beyond_the_depth_are_named_and_stand_below_scored_ones(path, kind, serving):
    table = {
        text: score / 10 if kind == "similarity" else score for text, score in NEGATIVE.items()
    }
    server = serving(Reranker(ByTable(table, score_kind=kind), depth=50))
    response, rows = rows_of(server, path)
    assert response.headers["secondpass-depth"] == "50/151"
    assert response.headers["secondpass-status"] == "ok"
    assert response.headers["secondpass-issues"] == "beyond_depth"
    assert [index for _, index in rows] == list(range(151))
    assert min(score for score, _ in rows[:50]) >= max(score for score, _ in rows[50:])
    if not path.startswith("/tei"):
        report = response.json()["secondpass"]
        (issue,) = report["issues"]
        assert issue["message"].startswith("50 of 151 scored (depth 50)")
        assert (report["beyond_depth"], report["depth_asked"]) == (101, 50)
    if "v2" in path:
        assert response.json()["meta"]["warnings"] == [f"beyond_depth: {issue['message']}"]


# ---------------------------------------------------------------------- errors

TYPED = {"message": "x", "type": "kind", "code": 400}
ERRORS = [
    # API, status of the error and of the response, body
    ("common", None, 400, {"message": "x", "detail": "x", "error": "x", "error_type": "kind"}),
    ("cohere", None, 400, {"message": "x"}),
    ("jina", None, 422, {"detail": "x"}),
    ("voyage", None, 400, {"detail": "x"}),
    ("mixedbread", None, 422, {"detail": "x"}),
    ("vllm", None, 400, {"error": TYPED}),
    ("llama_cpp", None, 400, {"error": TYPED}),
    ("infinity", None, 422, {"detail": [{"loc": ["body"], "msg": "x", "type": "kind"}]}),
    ("infinity", 503, 503, {"detail": "x"}),
    ("tei", None, 422, {"error": "x", "error_type": "Validation"}),
    ("tei", 413, 413, {"error": "x", "error_type": "Validation"}),
    ("tei", 429, 429, {"error": "x", "error_type": "Overloaded"}),
    ("tei", 503, 503, {"error": "x", "error_type": "Unhealthy"}),
]


@pytest.mark.parametrize(("api", "status", "sent", "body"), ERRORS)
def test_errors(api, status, sent, body):
    error = RequestError(status, "x", "kind")
    assert (ALL[api].status(error), ALL[api].error(error)) == (sent, body)


@pytest.mark.parametrize(("path", "status"), [("/v1/rerank", 400), ("/jina/rerank", 422)])
def test_errors_over_http(path, status, lengths):
    response = lengths.post(path, {"documents": TEXTS})
    assert (response.status_code, response.json()["detail"]) == (status, "query: is required")


def test_clients_of_tei_learn_the_largest_batch(serving):
    server = serving(Reranker(ByTable()), max_candidates=2)
    response = server.post("/rerank", {"query": "q", "texts": TEXTS})
    assert response.status_code == 422
    assert response.json()["error"] == "batch size 3 > maximum allowed batch size 2"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"texts": []}, "tei"),
        ({"documents": [], "top_k": None}, "voyage"),
        ({"documents": []}, "common"),
        ({"documents": [], "texts": []}, "common"),
    ],
)
def test_the_body_decides_without_a_prefix(body, name):
    assert shape_of(Fields(body, ServerSettings())).name == name


# ---------------------------------------------------------------------- Cohere's spans


@pytest.mark.parametrize(
    ("spans", "threshold"),
    [
        (None, None),
        ({"mode": "disabled", "threshold": 0.1}, None),
        ({"mode": "enabled"}, 0.0),
        ({"mode": "enabled", "max_spans": 3, "threshold": None}, 0.0),
        ({"mode": "enabled", "threshold": 1}, 1),
    ],
)
def test_which_spans_are_wanted(spans, threshold):
    assert read("common", documents=TEXTS, relevant_spans=spans).span_threshold == threshold


@pytest.mark.parametrize(
    ("fields", "threshold", "unused"),
    [(["text"], 0.0, ()), (["title"], None, ("relevant_spans",))],
)
def test_spans_are_those_of_a_text_that_the_client_has(fields, threshold, unused):
    spans = {"mode": "enabled"}
    request = read("cohere", documents=INPUTS, rank_fields=fields, relevant_spans=spans)
    assert (request.span_threshold, request.unused) == (threshold, unused)


@pytest.mark.parametrize(
    ("threshold", "spanned"), [(0.0, [True, True, False]), (0.9, [True, False, False])]
)
def test_spans_have_the_score_of_their_document(threshold, spanned):
    """From a score on; the last document has none."""
    spans = {"mode": "enabled", "threshold": threshold}
    answer = answer_of(read("common", documents=TEXTS, relevant_spans=spans))
    first, second, last = answer.ranking.items
    items = (replace(first, span=(2, 3)), replace(second, span=(0, 1)), last)
    rows = COMMON.rows(replace(answer, ranking=replace(answer.ranking, items=items)))
    assert ["relevant_spans" in row for row in rows] == spanned
    assert rows[0]["relevant_spans"] == [{"start": 2, "end": 3, "score": 0.9}]


@pytest.mark.parametrize(
    ("spans", "error"),
    [
        (True, "relevant_spans: must be an object"),
        ({}, "relevant_spans.mode"),
        ({"mode": "auto"}, "relevant_spans.mode"),
        ({"mode": ["enabled"]}, "relevant_spans.mode"),
        ({"mode": "enabled", "max_spans": 0}, "relevant_spans.max_spans"),
        ({"mode": "enabled", "max_spans": True}, "relevant_spans.max_spans"),
        ({"mode": "enabled", "threshold": 2}, "relevant_spans.threshold"),
        ({"mode": "enabled", "threshold": "0.1"}, "relevant_spans.threshold"),
    ],
    ids=repr,
)
def test_invalid_settings_of_spans(spans, error):
    with pytest.raises(RequestError, match=error):
        read("common", documents=TEXTS, relevant_spans=spans)

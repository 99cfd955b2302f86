"""Spans and fields of documents, as Cohere's API has them."""

import pytest

from rotation import rotated
from secondpass import Reranker
from secondpass.effects import ListScores

QUERY, TEXTS = "q", ["a", "ccc", "bb"]


class Spanned:
    """Scores by length, and the last character of each text but the shortest is the best part."""

    model_name = "spanned"
    score_kind = "probability"

    def score_pairs(self, query, documents):
        raise AssertionError

    def score_lists(self, requests, deadline):
        yield [
            ListScores(
                [len(text) / 10 for text in documents],
                (),
                spans=[(len(text) - 1, len(text)) if len(text) > 1 else None for text in documents],
            )
            for _, documents in requests
        ]


SPANS = {
    # relevant_spans, and which documents have theirs
    "wanted": ({"mode": "enabled"}, {1, 2}),
    "at most three": ({"mode": "enabled", "max_spans": 3, "threshold": None}, {1, 2}),
    "above a threshold": ({"mode": "enabled", "threshold": 0.25}, {1}),
    "disabled": ({"mode": "disabled", "threshold": 0.1}, set()),
    "null": (None, set()),
}


@pytest.mark.parametrize(
    ("case", "path"), rotated(SPANS, ["/v2/rerank", "/cohere/v2/rerank", "/v1/rerank"])
)
def test_spans(case, path, serving):
    wanted, expected = SPANS[case]
    texts = ["a", "c\U0001f989c", {"text": "bb"}]
    body = {"query": QUERY, "documents": texts, "relevant_spans": wanted}
    found = serving(Reranker(Spanned())).post(path, body).json()
    spans = {row["index"]: row.get("relevant_spans") for row in found["results"]}
    assert {index for index, listed in spans.items() if listed} == expected
    if 1 in expected:
        assert spans[1] == [{"start": 2, "end": 3, "score": 0.3}]
    assert found["secondpass"]["issues"] == []


@pytest.mark.parametrize("names", [None, ["text"]], ids=repr)
def test_rank_fields_of_the_text_rank_the_text(names, serving):
    body = {
        "query": QUERY,
        "documents": [{"text": text, "title": "no"} for text in TEXTS],
        "rank_fields": names,
        "relevant_spans": {"mode": "enabled"},
    }
    found = serving(Reranker(Spanned())).post("/cohere/v1/rerank", body).json()["results"]
    assert [row["relevance_score"] for row in found] == [0.3, 0.2, 0.1]
    assert found[0]["relevant_spans"] == [{"start": 2, "end": 3, "score": 0.3}]


def test_no_spans_of_a_text_that_the_server_made(serving):
    body = {
        "query": QUERY,
        "documents": [{"title": text} for text in TEXTS],
        "rank_fields": ["title"],
        "relevant_spans": {"mode": "enabled"},
    }
    found = serving(Reranker(Spanned())).post("/cohere/v1/rerank", body).json()
    assert not any("relevant_spans" in row for row in found["results"])
    (issue,) = found["secondpass"]["issues"]
    assert issue["message"].endswith("no effect: relevant_spans")


@pytest.mark.parametrize(
    ("wanted", "part"),
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
def test_invalid_settings_of_spans(wanted, part, lengths):
    body = {"query": QUERY, "documents": TEXTS, "relevant_spans": wanted}
    response = lengths.post("/v2/rerank", body)
    assert response.status_code == 400
    assert part in response.json()["message"]

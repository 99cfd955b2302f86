"""Names and attributes of each kind of operation."""

import json

import pytest

from fakes import ByTable
from secondpass import Candidate, Reranker
from secondpass.adapters.opentelemetry import at_end, at_start, metric_labels, of_texts, span_name
from secondpass.effects import Completion
from secondpass.ranking.observers import (
    MethodOperation,
    RankingOperation,
    RequestOperation,
    ScoringOperation,
)

RANKING = RankingOperation(name="by-length", candidates=3, top_k=None, query=0)
METHOD = MethodOperation(name="graded", texts=3, scored=2)
SCORING = ScoringOperation(name="m", queries=2, pairs=6)


def request(**more):
    known = {"name": "m", "kind": "chat", "provider": "google", "address": "host", "port": None}
    return RequestOperation(**{**known, "documents": 3, "attempt": 2, "after": "timeout", **more})


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (RANKING, "rerank by-length"),
        (METHOD, "graded"),
        (SCORING, "score m"),
        (request(), "chat m"),
        (request(kind="rerank"), "rerank m"),
    ],
    ids=["ranking", "method", "scoring", "chat", "rerank"],
)
def test_names(operation, name):
    assert span_name(operation) == name


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (RANKING, {"reranker.top_k": 3, "secondpass.candidates": 3}),
        (METHOD, {"openinference.span.kind": "CHAIN", "secondpass.texts": 3}),
        (SCORING, {"secondpass.queries": 2, "secondpass.pairs": 6}),
        (
            request(),
            {
                "openinference.span.kind": "LLM",
                "gen_ai.provider.name": "gcp.gemini",
                "server.address": "host",
                "secondpass.after": "timeout",
            },
        ),
        (request(kind="rerank", after=None), {"openinference.span.kind": "RERANKER"}),
    ],
    ids=["ranking", "method", "scoring", "chat", "rerank"],
)
def test_attributes_at_the_start(operation, expected):
    found = at_start(operation)
    assert expected.items() <= found.items()
    assert None not in found.values()  # such as a port that only the SDK knows


def test_attributes_at_the_end():
    assert at_end(METHOD) == {"secondpass.scored": 2}
    assert at_end(request(error="timeout")) == {"error.type": "timeout"}
    ended = request(input_tokens=7, cut=True)
    assert at_end(ended) == {
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.response.finish_reasons": ["length"],
    }


def test_metrics_have_few_values():
    assert metric_labels(RANKING) == {"secondpass.method": "by-length", "secondpass.status": "none"}
    assert metric_labels(METHOD) == {"secondpass.method": "graded"}
    assert metric_labels(SCORING) == {"secondpass.model": "m"}
    assert metric_labels(request(error="timeout"))["error.type"] == "timeout"
    assert not {"secondpass.attempt", "secondpass.after"} & metric_labels(request()).keys()


def test_texts_of_a_ranking():
    candidates = [Candidate("a", id=7, score=0.5, metadata={"page": 1, 2: 3}), Candidate(None)]
    found = of_texts({"query": "q", "candidates": candidates})
    prefix = "reranker.input_documents.0.document"
    assert found["reranker.query"] == "q"
    assert (found[f"{prefix}.id"], found[f"{prefix}.content"]) == ("7", "a")
    assert json.loads(found[f"{prefix}.metadata"])["page"] == 1
    assert not [name for name in found if "documents.1" in name]  # it has neither text nor score
    ranking = Reranker(ByTable()).rerank("q", ["a", "bb"])
    assert of_texts({"ranking": ranking})["reranker.output_documents.0.document.content"] == "bb"


def test_a_reply_that_was_cut():
    (value,) = of_texts({"completion": Completion("text", cut=True)}).values()
    (message,) = json.loads(value)
    assert (message["parts"][0]["content"], message["finish_reason"]) == ("text", "length")

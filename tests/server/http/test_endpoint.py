"""The scorer ``endpoint`` asks the server, in each API that both speak."""

import re

import pytest

from fakes import InOrder
from rotation import rotated
from secondpass import Candidate, Reranker
from secondpass.effects import ListScores

APIS = "cohere jina voyage mixedbread tei vllm infinity llama_cpp".split()
PASSAGES = [f"passage {number}" for number in range(50)]
SCORES = [((number * 37) % 50) / 50 for number in range(50)]
KINDS = {
    "logit": [score * 12 - 6 for score in SCORES],
    "probability": SCORES,
    "similarity": [score * 2 - 1 for score in SCORES],
    "unbounded": [score * 30 for score in SCORES],
}


def ask(server, api, **settings):
    config = {
        "type": "endpoint",
        "api": api,
        "model": "m",
        "base_url": f"{server.url}/{api}",
        "api_key": "none-is-demanded",
        "batch_size": 1000,
        **settings,
    }
    reranker = Reranker.from_config({"method": config})
    try:
        return reranker.rerank("q", PASSAGES)
    finally:
        reranker.close()


@pytest.mark.parametrize(("api", "kind"), rotated(APIS, KINDS))
def test_order_of_the_process(api, kind, serving):
    local = Reranker(InOrder(KINDS[kind], score_kind=kind))
    ranking = ask(serving(local), api, scores="unbounded")
    assert ranking.order == local.rerank("q", PASSAGES).order
    assert ranking.report.status == "ok"
    assert ranking.report.usage.calls == 1


@pytest.mark.parametrize("api", ["tei", "infinity"])
def test_raw_scores_are_the_final_scores(api, serving):
    local = Reranker(InOrder(KINDS["logit"], score_kind="logit"))
    ranking = ask(serving(local), api, raw_scores=True)
    assert [item.rerank_score for item in ranking] == sorted(KINDS["logit"], reverse=True)


class Marking:
    """Finds what is in angle brackets."""

    score_kind = "probability"
    model_name = "marking"

    def score_pairs(self, query, texts):
        raise AssertionError

    def score_lists(self, requests, deadline):
        yield [self.scores(texts) for _, texts in requests]

    def scores(self, texts):
        found = [re.search("<.*>", text) for text in texts]
        return ListScores([0.5] * len(texts), spans=[match and match.span() for match in found])


@pytest.mark.parametrize(
    ("fields", "settings"),
    rotated(
        [["text"], ["title", "text"], ["text", "title"]], [{}, {"dedupe": True}, {"floor": 0.2}]
    ),
)
def test_spans_of_the_process(fields, settings, serving):
    """They cut the same out of each candidate, whatever is rendered around it."""
    candidates = [
        Candidate("🦉 a <one>", metadata={"title": "Ti\u0300tle"}),
        Candidate("<two>", id="same", metadata={"title": "🦉"}),
        Candidate("<two>", id="same"),
        Candidate("", metadata={"title": "<only a title>"}),
        Candidate("\ud800 <three> \udfff"),
        Candidate("none"),
    ]
    server = serving(Reranker(Marking(), **settings))
    method = {
        **{"type": "endpoint", "api": "cohere", "model": "m", "spans": True, "batch_size": 4},
        **{"base_url": server.url + "/cohere", "api_key": "none-is-demanded"},
    }
    reranker = Reranker.from_config({"method": method, "render": {"fields": fields}})
    try:
        ranking = reranker.rerank("q", candidates)
    finally:
        reranker.close()
    found = {item.position: item.span and item.text[slice(*item.span)] for item in ranking}
    expected = {0: "<one>", 1: "<two>", 2: "<two>", 3: None, 4: "<three>", 5: None}
    assert found == expected
    assert {issue.code for issue in ranking.report.issues} <= {"empty_text", "scores_equal"}

"""The scorer ``endpoint`` asks the server, in each API that both speak."""

import re
from contextlib import closing

import pytest

from fakes import ByTable, InOrder
from rotation import rotated
from secondpass import Candidate, Reranker
from secondpass.questions import ListScores

APIS = "cohere jina voyage mixedbread tei vllm infinity llama_cpp".split()
PASSAGES = [f"passage {number}" for number in range(50)]
SCORES = [((number * 37) % 50) / 50 for number in range(50)]
KINDS = {
    "logit": [score * 12 - 6 for score in SCORES],
    "probability": SCORES,
    "similarity": [score * 2 - 1 for score in SCORES],
    "unbounded": [score * 30 for score in SCORES],
}


def ask(server, api, candidates=PASSAGES, *, render=None, **settings):
    method = {
        "type": "endpoint",
        "api": api,
        "model": "m",
        "base_url": f"{server.url}/{api}",
        "api_key": "none-is-demanded",
        "batch_size": 1000,
        **settings,
    }
    with closing(Reranker.from_config({"method": method, "render": render or {}})) as reranker:
        return reranker.rerank("q", candidates)


@pytest.mark.parametrize(("api", "kind"), rotated(APIS, KINDS))
def test_order_of_the_process(api, kind, serving):
    local = Reranker(InOrder(KINDS[kind], score_kind=kind))
    ranking = ask(serving(local), api, scores="unbounded")
    assert ranking.order == local.rerank("q", PASSAGES).order
    assert ranking.report.status == "ok"
    assert ranking.report.usage.calls == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", ["/vllm", "", "/vllm/", "/"])
def test_order_of_the_process_by_scores_alone(kind, prefix, serving):
    """vLLM's other API, whose rows are in the order of the request."""
    local = Reranker(InOrder(KINDS[kind], score_kind=kind))
    server = serving(local)
    ranking = ask(server, "vllm_score", scores="unbounded", base_url=f"{server.url}{prefix}")
    assert ranking.order == local.rerank("q", PASSAGES).order
    assert (ranking.report.status, ranking.report.usage.calls) == ("ok", 1)


@pytest.mark.parametrize("api", ["tei", "infinity"])
def test_raw_scores_are_the_final_scores(api, serving):
    local = Reranker(InOrder(KINDS["logit"], score_kind="logit"))
    ranking = ask(serving(local), api, raw_scores=True)
    assert [item.rerank_score for item in ranking] == sorted(KINDS["logit"], reverse=True)


def marked(requests, _deadline):
    """Equal scores, with what is in angle brackets as spans."""
    for _, texts in requests:
        found = [re.search("<.*>", text) for text in texts]
        yield [ListScores([0.5] * len(texts), spans=[match and match.span() for match in found])]


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
    server = serving(Reranker(ByTable(score_lists=marked, score_kind="probability"), **settings))
    render = {"fields": fields}
    ranking = ask(server, "cohere", candidates, render=render, spans=True, batch_size=4)
    found = {item.position: item.span and item.text[slice(*item.span)] for item in ranking}
    expected = {0: "<one>", 1: "<two>", 2: "<two>", 3: None, 4: "<three>", 5: None}
    assert found == expected
    assert {issue.code for issue in ranking.report.issues} <= {"no_text", "scores_equal"}

"""What the tools return of a ranking."""

import pytest

pytest.importorskip("mcp")

from pydantic import ValidationError

from fakes import Answering, ByTable
from secondpass import Candidate, Reranker
from secondpass_server.mcp.tools import Document, outcome, result


def test_why_not():
    scores = Answering(lambda count: [0.5, float("nan")])
    found = outcome(Reranker(scores, log_level="debug").rerank("q", ["a", "bb"]))
    assert (found["reranked"], found["status"]) == (False, "partial")
    assert found["why_not"][0].startswith("score_not_finite: ")


@pytest.mark.parametrize("text", [True, False])
def test_results(text):
    ranking = Reranker(ByTable()).rerank("q", ["a", Candidate("bb", id="b")])
    best = result(ranking[0], text=text)
    assert (best.index, best.id, best.rank, best.status) == (1, "b", 1, "scored")
    assert best.text == ("bb" if text else None)
    assert best.span is None


@pytest.mark.parametrize(
    "document",
    [{}, {"text": 1}, {"text": "a", "title": "b"}, {"text": "a", "id": True}],
    ids=repr,
)
def test_documents_are_strict(document):
    with pytest.raises(ValidationError):
        Document(**document)

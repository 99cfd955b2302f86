"""Rankings as JSON lines."""

from secondpass import Candidate, Reranker
from secondpass.formats import to_json
from secondpass.formats.requests import InputRequest, ranking_record

CANDIDATES = [Candidate("cats", id="a", score=0.5, metadata={"year": 7}), Candidate("owls", id="b")]


def record(query_id="q1", *, text=False, timings=False, **settings):
    request = InputRequest(query_id, "owls", CANDIDATES, None, b"", 0)
    ranking = Reranker("lexical", **settings).rerank("owls", CANDIDATES)
    return ranking_record(request, ranking, text=text, timings=timings)


def test_items():
    row = record()
    assert list(row) == ["query_id", "query", "ranking", "report"]
    first, second = row["ranking"]
    assert (first["rank"], first["id"], first["position"], first["status"]) == (1, "b", 1, "scored")
    assert first["rerank_score"] == first["final_score"] > second["rerank_score"]
    assert (first["score"], second["score"]) == (None, 0.5)
    assert not {"text", "metadata", "span", "stage_scores", "probability"} & {*first}
    to_json(row)


def test_texts_and_metadata_are_included_on_request():
    first, second = record(text=True)["ranking"]
    assert (first["text"], second["text"], second["metadata"]) == ("owls", "cats", {"year": 7})
    assert "metadata" not in first


def test_spans_are_lists():
    first, _ = record(passages={"size": 4, "overlap": 0})["ranking"]
    assert first["span"] == [0, 4]

"""The API of Text Embeddings Inference."""

import pytest

from fakes import ByTable
from secondpass import Reranker
from secondpass_server.http.errors import RequestError
from secondpass_server.http.shapes import SHAPES
from shape_answers import read

TEI = SHAPES["tei"]
QUERY, TEXTS = "q", ["a", "ccc", "bb"]


def test_clients_of_tei_learn_the_largest_batch(serving):
    server = serving(Reranker(ByTable()), max_candidates=2)
    response = server.post("/rerank", {"query": QUERY, "texts": TEXTS})
    assert response.status_code == 422
    assert response.json()["error"] == "batch size 3 > maximum allowed batch size 2"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(None, "Validation"), (413, "Validation"), (429, "Overloaded"), (503, "Unhealthy")],
)
def test_types_of_errors(status, kind):
    assert TEI.error(RequestError(status, "x")) == {"error": "x", "error_type": kind}


def test_cutting_is_not_to_be_turned_off():
    assert read(TEI, query=QUERY, texts=TEXTS, truncate=True).unused == ()
    assert read(TEI, query=QUERY, texts=TEXTS, truncate=False).unused == ("truncate",)


def test_what_litellm_sends_besides_is_known():
    request = read(TEI, query=QUERY, texts=TEXTS, top_n=2, return_documents=True)
    assert (request.top_n, request.return_documents, request.unused) == (2, False, ())

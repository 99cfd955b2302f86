"""Voyage's API."""

import pytest

from secondpass_server.http.errors import RequestError
from secondpass_server.http.shapes import SHAPES
from shape_answers import TEXTS, answer_of, read

VOYAGE = SHAPES["voyage"]


def test_its_own_names_are_read_and_written():
    request = read(VOYAGE, query="q", documents=TEXTS, top_k=2, return_documents=True)
    assert (request.top_n, request.return_documents) == (2, True)
    response = VOYAGE.response(answer_of(request))
    assert [row["document"] for row in response["data"]] == ["ccc", "bb"]
    assert response["usage"] == {"total_tokens": 0, "prompt_tokens": 0}


def test_documents_are_no_objects():
    with pytest.raises(RequestError, match="must be a string, not an object"):
        read(VOYAGE, query="q", documents=[{"text": "a"}])


def test_cutting_is_not_to_be_turned_off():
    assert read(VOYAGE, query="q", documents=TEXTS, truncation=True).unused == ()
    assert read(VOYAGE, query="q", documents=TEXTS, truncation=False).unused == ("truncation",)

"""Mixedbread's API."""

from secondpass_server.http.shapes import SHAPES
from shape_answers import TEXTS, answer_of, read

MIXEDBREAD = SHAPES["mixedbread"]


def test_its_own_names_are_read_and_written():
    request = read(MIXEDBREAD, query="q", input=TEXTS, top_k=2, return_input=True)
    assert (request.texts, request.top_n, request.return_documents) == (TEXTS, 2, True)
    response = MIXEDBREAD.response(answer_of(request))
    assert (response["top_k"], response["return_input"]) == (2, True)
    assert [row["input"] for row in response["data"]] == ["ccc", "bb"]


def test_top_k_is_the_number_of_inputs_by_default():
    response = MIXEDBREAD.response(answer_of(read(MIXEDBREAD, query="q", input=TEXTS)))
    assert (response["top_k"], response["return_input"]) == (3, False)


def test_fields_of_inputs():
    inputs = [{"title": "t", "text": "x"}]
    request = read(MIXEDBREAD, query="q", input=inputs, rank_fields=["title"])
    assert request.texts == ["t"]
    request = read(MIXEDBREAD, query="q", input=inputs, rank_fields=["title", "text"])
    assert request.texts == ["title: t\ntext: x"]

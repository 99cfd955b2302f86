"""The union of the APIs at paths without a prefix."""

from secondpass_server.http.errors import RequestError
from secondpass_server.http.shapes import COMMON
from shape_answers import TEXTS, answer_of, read


def test_fields_of_both_are_read():
    body = {"query": "q", "documents": [{"t": "a"}], "rank_fields": ["t"], "top_n": 1}
    request = read(COMMON, **body, instruction="new ones", raw_scores=True)
    assert (request.texts, request.instruction, request.top_n) == (["a"], "new ones", 1)
    assert not COMMON.unit_scores(request)
    assert COMMON.unit_scores(read(COMMON, query="q", documents=TEXTS))


def test_members_of_both_are_written():
    response = COMMON.response(answer_of(read(COMMON, query="q", documents=TEXTS)))
    assert set(response) == {"id", "model", "results", "usage", "meta", "secondpass"}


def test_errors_are_where_each_client_looks():
    error = COMMON.error(RequestError(None, "x", "kind"))
    assert error == {"message": "x", "detail": "x", "error": "x", "error_type": "kind"}

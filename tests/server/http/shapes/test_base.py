"""What all shapes have: rows, statuses and tokens."""

from dataclasses import replace

import pytest

from secondpass_server.http.errors import RequestError
from secondpass_server.http.shapes import SHAPES
from secondpass_server.http.shapes.base import result_rows, token_usage
from shape_answers import SCORES, TEXTS, answer_of, read


@pytest.fixture
def answer():
    return answer_of(read(SHAPES["jina"], query="q", documents=TEXTS, return_documents=False))


def test_rows_are_best_first(answer):
    rows = [{"index": index, "s": score} for index, score in zip([1, 2, 0], SCORES, strict=True)]
    assert result_rows(answer, score="s") == rows


@pytest.mark.parametrize(
    ("document", "as_object", "expected"),
    [("a", True, {"text": "a"}), ("a", False, "a"), ({"text": "a", "n": 1}, True, None)],
    ids=["object", "string", "as it was sent"],
)
def test_documents_of_rows(document, as_object, expected):
    request = read(SHAPES["jina"], query="q", documents=[document])
    (row,) = result_rows(answer_of(request), document="d", as_object=as_object)
    assert row["d"] == (document if expected is None else expected)


def test_tokens_are_numbers(answer):
    """Clients of infinity and vLLM demand them; the report says what is known."""
    assert token_usage(answer) == {"total_tokens": 0, "prompt_tokens": 0}
    usage = replace(answer.ranking.report.usage, input_tokens=7)
    ranking = replace(answer.ranking, report=replace(answer.ranking.report, usage=usage))
    known = replace(answer, ranking=ranking)
    assert token_usage(known) == {"total_tokens": 7, "prompt_tokens": 7}


def test_invalid_requests_have_the_status_of_the_api():
    assert SHAPES["jina"].status(RequestError(None, "x")) == 422
    assert SHAPES["cohere"].status(RequestError(None, "x")) == 400
    assert SHAPES["jina"].status(RequestError(429, "x")) == 429

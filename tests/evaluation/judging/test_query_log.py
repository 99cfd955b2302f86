"""Queries from logs and files of queries."""

import pytest

from secondpass.errors import InputError
from secondpass.formats.errors import FormatError
from secondpass_evaluation.loading import read_query_log


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('{"query": "a b", "user": 1}\n{"question": "c"}\n{"text": "d"}\n', ["a b", "c", "d"]),
        ('{"query": "Pears"}\n{"query": " pears "}\n{"query": "  "}\n', ["Pears"]),
        ("q1\tpears\nq2\tplums\nq3\tPEARS\n", ["pears", "plums"]),
        ('\ufeff{"query": "pears"}\n', ["pears"]),
        ('{"query": "\\ud800"}\n{"query": "\\udfff"}\n', ["?"]),
    ],
    ids=["keys", "repeated", "tabs", "byte order mark", "surrogates"],
)
def test_each_text_once(tmp_path, content, texts):
    path = tmp_path / "log"
    path.write_text(content, encoding="utf-8")
    assert list(read_query_log(path).values()) == texts


def test_ids_are_kept_or_made_of_the_text(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"query": "pears"}\n')
    (before,) = read_query_log(path)
    path.write_text('{"query": "plums", "id": 7}\n{"query": "pears"}\n')
    assert list(read_query_log(path)) == ["7", before]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", InputError, "there are no queries"),
        ('{"q": "pears"}\n', FormatError, "needs a 'query'"),
        ('{"query": 3}\n', FormatError, "a string, not"),
        ('{"query": "a", "id": 1}\n{"query": "b", "id": 1}\n', FormatError, "'1' has another text"),
        ('{"query": "a", "id": true}\n', FormatError, "the id must be a string or an integer"),
        ("pears\n", FormatError, "there is no tab"),
    ],
    ids=["empty", "no query", "number", "same id", "bool", "no tab"],
)
def test_malformed_lines_are_named(tmp_path, content, error, message):
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(error, match=message):
        read_query_log(path)

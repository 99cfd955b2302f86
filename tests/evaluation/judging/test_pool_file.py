"""The texts of judged documents as JSON lines."""

import pytest

from judged_folders import POOLS, QUERIES
from secondpass import Candidate
from secondpass.formats.errors import FormatError
from secondpass_evaluation.judging.folder import pool_lines, read_pool


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "pool.jsonl"
    path.write_text("".join(pool_lines(QUERIES, POOLS)))
    assert read_pool(path) == (QUERIES, POOLS)


def test_lone_surrogates_are_replaced():
    (line,) = pool_lines({"q": "a \ud800"}, {"q": (Candidate("b \udfff", "d"),)})
    line.encode()
    assert "a ?" in line


@pytest.mark.parametrize(
    "record",
    [
        '{"query_id": "q", "query": "a"}',
        '{"query_id": "q", "documents": []}',
        '{"query_id": "q", "query": "a", "documents": 5}',
        '{"query_id": "q", "query": "a", "documents": [{"id": "d"}]}',
        '{"query_id": "q", "query": "a", "documents": ["d"]}',
    ],
    ids=["no documents", "no query", "number", "no text", "strings"],
)
def test_malformed_lines_are_errors(tmp_path, record):
    path = tmp_path / "pool.jsonl"
    path.write_text(record + "\n")
    with pytest.raises(FormatError, match=r"pool\.jsonl.*needs 'query_id', 'query' and"):
        read_pool(path)

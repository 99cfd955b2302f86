"""Pairs as JSON lines, with and without scores."""

import pytest

from secondpass.formats.errors import FormatError
from secondpass.formats.pairs import read_pairs, read_scored_pairs


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "pairs.jsonl"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def test_pairs_are_read_in_order(write):
    content = '\ufeff{"query": "q", "text": "a", "label": 1}\n\n{"text": "b", "query": "q"}\n'
    assert read_pairs(write(content)) == [("q", "a"), ("q", "b")]
    scored = content.replace('"label"', '"score"').replace('"q"}', '"q", "score": -0.5}')
    assert read_scored_pairs(write(scored)) == [("q", "a", 1.0), ("q", "b", -0.5)]


@pytest.mark.parametrize("read", [read_pairs, read_scored_pairs])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": has no pairs"),
        ('{"query": "q", "text": "a", "score": 1}\n{"query": "q"}', ":2: 'text' must be a text"),
        ('\n{"query": 3, "text": "a"}', ":2: 'query' must be a text that is not empty, not 3"),
        ('{"query": " ", "text": "a"}', ":1: 'query' must be a text that is not empty"),
    ],
)
def test_malformed_pairs_are_named(write, read, content, message):
    path = write(content)
    with pytest.raises(FormatError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}{message}")


@pytest.mark.parametrize("score", ["", ', "score": "1"', ', "score": true', ', "score": null'])
def test_a_score_is_a_number(write, score):
    path = write(f'{{"query": "q", "text": "a"{score}}}')
    with pytest.raises(FormatError, match=":1: 'score' must be a number, not "):
        read_scored_pairs(path)

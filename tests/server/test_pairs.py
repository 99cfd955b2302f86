import pytest

from secondpass.formats.errors import FormatError
from secondpass_server.cli.export import read_pairs


def test_pairs_are_read_in_order(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '\ufeff{"query": "q", "text": "a", "label": 1}\n\n{"text": "b", "query": "q"}\n'
    )
    assert read_pairs(path) == [("q", "a"), ("q", "b")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": has no pairs"),
        ('{"query": "q", "text": "a"}\n{"query": "q"}', ":2: 'text' must be a text"),
        ('\n{"query": 3, "text": "a"}', ":2: 'query' must be a text that is not empty, not 3"),
        ('{"query": " ", "text": "a"}', ":1: 'query' must be a text that is not empty"),
        ('["q", "a"]', ":1: must be a JSON object"),
        ("q\ta", ":1: is not JSON"),
        (b'{"query": "q", "text": "\xff"}', ":1: is not UTF-8"),
    ],
)
def test_malformed_lines_are_named(tmp_path, content, message):
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FormatError) as error:
        read_pairs(path)
    assert str(error.value).startswith(f"{path}{message}")

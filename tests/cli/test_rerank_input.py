"""Contexts of ``secondpass rerank``. `rerank/test_errors.py` has what does not go together."""

import hashlib

import pytest

from secondpass import ConfigurationError
from secondpass.cli.rerank_input import read_context


@pytest.mark.parametrize(
    ("content", "value"),
    [('{"a": [1]}', {"a": [1]}), ("a: [1]", {"a": [1]}), ("text", "text"), ("", None)],
    ids=["JSON", "YAML", "string", "empty"],
)
def test_a_context_is_json_or_yaml(tmp_path, content, value):
    path = tmp_path / "context"
    path.write_text(content)
    assert read_context(path) == (value, hashlib.sha256(content.encode()).hexdigest())


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a: [", "not JSON; as YAML: "), (b"\xff", "not JSON or YAML")],
    ids=["broken", "not UTF-8"],
)
def test_a_context_that_cannot_be_read(tmp_path, content, message):
    path = tmp_path / "context"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        read_context(path)

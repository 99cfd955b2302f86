"""Markdown needs markdown-it-py; what it becomes is in test_documents.py."""

import sys

import pytest

from secondpass import MissingExtraError
from secondpass_evaluation.search import markdown
from secondpass_evaluation.search.documents import read_source


def test_a_missing_parser_is_named(tmp_path, monkeypatch) -> None:
    markdown._parser.cache_clear()
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    (tmp_path / "a.md").write_text("# x")
    with pytest.raises(MissingExtraError, match=r"secondpass\[evaluation\]"):
        read_source(tmp_path)

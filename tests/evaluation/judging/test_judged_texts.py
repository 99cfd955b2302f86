"""Hashes of judged texts beside judgements."""

import pytest

from secondpass import Candidate
from secondpass.formats.errors import FormatError
from secondpass_evaluation.judging.judged_texts import (
    changed_documents,
    keep_hashes,
    read_hashes,
    text_hashes,
    write_hashes,
)


def test_what_is_written_is_read(tmp_path):
    hashes = text_hashes(
        {"q": {"a": 1, "b": 0, "far": 1}},
        [Candidate("\ud800 x", "a")],
        {"q": [Candidate("other", "a"), Candidate("y", "b")]},
    )
    assert [*hashes["q"]] == ["a", "b"]
    write_hashes(tmp_path / "qrels.txt", hashes)
    assert (tmp_path / "qrels.texts.json").is_file()
    assert read_hashes(tmp_path / "qrels.txt") == hashes
    assert read_hashes(tmp_path / "other.txt") == {}


@pytest.mark.parametrize("content", ["", "[1]", '{"q": 1}', "[" * 100_000, "\xff"])
def test_malformed_files_are_refused(tmp_path, content):
    (tmp_path / "qrels.texts.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(FormatError, match="is not a file of hashes"):
        read_hashes(tmp_path / "qrels.txt")


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        ([{"q": {"a": "1"}}], []),
        ([{"q": {"a": "2"}}], ["a"]),
        ([{"q": {"a": "2"}}, {"q": {"a": "1"}}], []),
        ([{"q": {"b": "2"}}, {}], []),
    ],
)
def test_a_document_has_changed_if_none_of_its_texts_was_judged(now, changed):
    assert changed_documents({"q": {"a": "1"}, "other": {"a": "3"}}, *now) == changed


def test_the_hash_of_what_was_judged_is_kept(tmp_path):
    path = tmp_path / "qrels.txt"
    keep_hashes(path, {"q": {"a#1": "1"}}, {"q": {"a#1": "2", "a#2": "3", "b": "4"}})
    assert read_hashes(path) == {"q": {"a#1": "1", "a#2": "3"}}
    keep_hashes(tmp_path / "no folder" / "qrels.txt", {}, {"q": {"a#1": "2"}})

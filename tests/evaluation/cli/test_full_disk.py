"""An error of a full disk names the file. Files are limited to 4 kB here."""

import errno
import os
import sys

import pytest

from command_requests import small_files
from fruit_suite import DOCUMENTS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no limit of files")
REASON = os.strerror(errno.EFBIG)


@pytest.fixture
def corpus(write):
    texts = [*DOCUMENTS.items()]
    texts += [(f"{name}{number}", text) for number in range(40) for name, text in DOCUMENTS.items()]
    return write("many.jsonl", [{"_id": name, "text": f"{text} {name}"} for name, text in texts])


def test_an_index(secondpass, corpus, tmp_path):
    with small_files():
        told = secondpass("index", corpus, "--into", tmp_path / "i", "--words-only")
    assert (told.code, told.flat) == (1, f"secondpass: {tmp_path / 'i'}: {REASON}")
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize("mode", ["lexical", "vector"])
def test_results(secondpass, suite, corpus, tmp_path, mode):
    """Of finished rankings, of results, or of vectors, which are then only not cached."""
    results, cache = tmp_path / "r", tmp_path / "cache"
    call = ["eval", suite, "--corpus", corpus, "--mode", mode, "--cache", cache]
    with small_files():
        told = secondpass(*call, "--into", results)
    assert told.code == 1
    assert f"secondpass: {results}{os.sep}" in told.flat
    assert told.flat.endswith(f": {REASON}")
    if mode == "vector":
        assert f": cannot cache the vectors ({REASON})" in told.flat


def test_finished_rankings(secondpass, suite, corpus, tmp_path):
    call = ["eval", suite, "--corpus", corpus, "--behind", "lexical", "-p", "lexical"]
    with small_files():
        told = secondpass(*call, "--into", tmp_path / "r")
    assert told.code == 1
    assert f"secondpass: {tmp_path / 'r' / 'rankings.jsonl'}: {REASON}" in told.flat

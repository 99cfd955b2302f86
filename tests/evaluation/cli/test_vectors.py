"""Vectors of a corpus, cached between runs."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fruit_suite import QUERIES, systems
from secondpass_evaluation.cli.first_stages import CachedEmbedder
from secondpass_evaluation.cli.suite_options import cache_folder
from secondpass_evaluation.search.embedders import EmbeddedEmbedder


def test_the_vectors_are_kept_and_a_broken_file_is_made_anew(secondpass, suite, tmp_path):
    cache = tmp_path / "cache"
    call = ["eval", suite, "--mode", "vector", "--json", "--cache", cache]
    first = secondpass(*call)
    (file,) = cache.iterdir()
    assert f"cached in {file}" in first.flat
    second = secondpass(*call)
    assert f"read from {file}" in second.flat
    kept = file.read_bytes()
    file.write_bytes(kept[:100])
    third = secondpass(*call)
    assert f"cached in {file}" in third.flat
    assert file.read_bytes() == kept
    means = [systems(one)["vector"]["means"] for one in (first, second, third)]
    assert means[0] == means[1] == means[2]


def test_with_cached_vectors_the_model_is_loaded_before_queries(
    secondpass, suite, tmp_path, monkeypatch
):
    call = ["eval", suite, "--mode", "vector", "--json", "--cache", tmp_path / "cache"]
    secondpass(*call)
    asked = []
    embed = EmbeddedEmbedder.embed
    monkeypatch.setattr(
        EmbeddedEmbedder, "embed", lambda own, texts: asked.extend(texts) or embed(own, texts)
    )
    secondpass(*call)
    assert asked[0] not in QUERIES.values()
    assert asked[1:] == [*QUERIES.values()]


def test_a_cache_that_cannot_be_written_is_told(secondpass, suite, write):
    told = secondpass("eval", suite, "--mode", "vector", "--cache", write("a-file", "x"))
    assert told.code == 0
    assert "cannot cache the vectors" in told.flat


def test_vectors_are_kept_in_a_folder_of_the_platform(secondpass, suite, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert secondpass("eval", suite, "--mode", "vector").code == 0
    assert len([*(tmp_path / "xdg" / "secondpass").iterdir()]) == 1


@pytest.mark.parametrize(
    ("platform", "variable", "folder"),
    [
        ("linux", None, "home/.cache/secondpass"),
        ("linux", "XDG_CACHE_HOME", "chosen/secondpass"),
        ("darwin", "XDG_CACHE_HOME", "home/Library/Caches/secondpass"),
        ("win32", None, "home/AppData/Local/secondpass"),
        ("win32", "LOCALAPPDATA", "chosen/secondpass"),
    ],
)
def test_the_cache_folder(monkeypatch, platform, variable, folder):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "chosen")
    assert cache_folder() == Path(folder)


class Lengths:
    """Embeds a text as its length."""

    def __init__(self, name="lengths"):
        self.name, self.texts = name, []

    def embed(self, texts):
        self.texts += texts
        return np.array([[len(text)] for text in texts], np.float32)


def embedded(folder, texts, name="lengths"):
    """The vectors, and the texts that were not read from the cache."""
    embedder = Lengths(name)
    vectors = CachedEmbedder(embedder, folder, lambda _done, _total: None).embed(texts)
    return vectors.ravel().tolist(), sorted(embedder.texts)


def test_each_list_of_texts_has_its_own_file(tmp_path):
    assert embedded(tmp_path, ["a", "bc"]) == ([1, 2], ["a", "bc"])
    assert embedded(tmp_path, ["a", "bc"]) == ([1, 2], [])
    assert embedded(tmp_path, ["ab", "c"]) == ([2, 1], ["ab", "c"])
    assert embedded(tmp_path, ["a", "bc"], "another") == ([1, 2], ["a", "bc"])
    assert len([*tmp_path.iterdir()]) == 3


def test_a_single_text_is_not_cached(tmp_path):
    assert embedded(tmp_path, ["query"]) == ([5], ["query"])
    assert embedded(None, ["a", "bc"]) == ([1, 2], ["a", "bc"])
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "vectors",
    [np.zeros((3, 1), np.float32), np.zeros(2, np.float32), np.zeros((2, 1)),
     np.full((2, 1), np.nan, np.float32)],
    ids=["count", "shape", "type", "not finite"],
)  # fmt: skip
def test_wrong_vectors_are_computed_again(tmp_path, vectors):
    embedded(tmp_path, ["a", "bc"])
    (file,) = tmp_path.iterdir()
    np.save(file, vectors)
    assert embedded(tmp_path, ["a", "bc"]) == ([1, 2], ["a", "bc"])

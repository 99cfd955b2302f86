"""What ``secondpass eval`` searches, and where it keeps vectors."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fakes import ByTable
from fruit_suite import DOCUMENTS, QUERIES, systems
from secondpass import Candidate, Reranker
from secondpass_evaluation import StaleIndexError, compare, load_suite, open_index
from secondpass_evaluation.cli.first_stages import CachedEmbedder
from secondpass_evaluation.cli.suite_options import cache_folder
from secondpass_evaluation.search.embedders import EmbeddedEmbedder
from secondpass_evaluation.search.indexing import build_index


def test_candidates_may_be_those_of_a_run(secondpass, suite, write):
    lines = [f"{q} Q0 {d} 1 {-at} t\n" for q in QUERIES for at, d in enumerate(DOCUMENTS)]
    run = write("run", "".join(lines))
    told = secondpass("eval", suite, "--run", run, "--preset", "lexical", "--json")
    assert list(systems(told)) == ["given", "given+rerank"]


@pytest.fixture
def docs(write, tmp_path):
    """A folder with two pages and what is none."""
    write("docs/owl.md", "# Owls\n\nThe owl hunts mice at night.")
    write("docs/more/cat.html", "<title>Cats</title><p>A cat sleeps for most of the day.</p>")
    write("docs/picture.png", b"\x89PNG\0\0")
    return tmp_path / "docs"


@pytest.fixture
def asked(write):
    """Questions about them."""
    return write(
        "asked.jsonl",
        [
            {"query": "who hunts at night", "relevant": ["owl.md#1"]},
            {"query": "how long do cats sleep", "relevant": ["more/cat.html#1"]},
        ],
    )


def test_a_folder_is_searched_in_all_modes(secondpass, asked, docs):
    call = ("eval", asked, "--preset", "lexical", "--json", "--no-cache", "--corpus", docs)
    told = secondpass(*call)
    found = systems(told)
    assert [*found] == ["vector", "lexical", "hybrid", "hybrid+rerank"]
    assert {system["status"] for system in found.values()} == {"ran"}
    assert found["vector"]["means"]["R@100"] == 1.0
    assert "picture.png" in told.flat


def test_python_takes_folders_and_indexes_too(asked, docs, tmp_path):
    words = tmp_path / "words"
    build_index(docs, words)
    index = open_index(words)
    suite, *same = (
        load_suite(asked, corpus=corpus) for corpus in (docs, words, str(words), index.corpus)
    )
    assert all(each == suite for each in same)
    text = "Owls\nThe owl hunts mice at night."
    owl = Candidate(text, "owl.md#1", metadata={"path": "owl.md", "passage": 1})
    assert owl in suite.corpus
    scorer = ByTable()
    compare(Reranker(scorer), suite, retriever=index, first_stages=["lexical"])
    texts = {text for _query, documents in scorer.calls for text in documents}
    assert "Cats\nA cat sleeps for most of the day." in texts
    (docs / "owl.md").unlink()
    with pytest.raises(StaleIndexError, match=r"owl\.md no longer exists"):
        load_suite(asked, corpus=words)


# ---------------------------------------------------------------------- vectors of a corpus


def test_with_cached_vectors_the_model_is_loaded_before_queries(
    secondpass, suite, tmp_path, monkeypatch
):
    call = ["eval", suite, "--mode", "vector", "--json", "--cache", tmp_path / "cache"]
    first = secondpass(*call)
    (file,) = (tmp_path / "cache").iterdir()
    assert f"cached in {file}" in first.flat
    encoded = []
    embed = EmbeddedEmbedder.embed_query
    monkeypatch.setattr(
        EmbeddedEmbedder,
        "embed_query",
        lambda own, text: encoded.append(text) or embed(own, text),
    )
    second = secondpass(*call)
    assert f"read from {file}" in second.flat
    assert encoded[0] not in QUERIES.values()
    assert encoded[1:] == [*QUERIES.values()]
    assert systems(first)["vector"]["means"] == systems(second)["vector"]["means"]


def test_a_cache_that_cannot_be_written_is_told(secondpass, suite, write):
    told = secondpass("eval", suite, "--mode", "vector", "--cache", write("a-file", "x"))
    assert (told.code, "cannot cache the vectors" in told.flat) == (0, True)


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

    def __init__(self):
        self.texts = []

    def embed(self, texts):
        self.texts += texts
        return np.array([[len(text)] for text in texts], np.float32)


def embedded(folder, texts, name="lengths"):
    """The vectors, and the texts that were not read from the cache."""
    embedder = Lengths()
    vectors = CachedEmbedder(embedder, name, folder).embed(texts)
    return vectors.ravel().tolist(), sorted(embedder.texts)


def test_each_list_of_texts_has_its_own_file(tmp_path):
    assert embedded(tmp_path, ["a", "bc"]) == ([1, 2], ["a", "bc"])
    assert embedded(tmp_path, ["a", "bc"]) == ([1, 2], [])
    assert embedded(tmp_path, ["ab", "c"]) == ([2, 1], ["ab", "c"])
    assert embedded(tmp_path, ["a", "bc"], "another") == ([1, 2], ["a", "bc"])
    assert len([*tmp_path.iterdir()]) == 3


def test_a_single_text_is_not_cached(tmp_path):
    assert embedded(tmp_path, ["query"]) == ([5], ["query"])
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(file.read_bytes()[:100]),
        lambda file: np.save(file, np.zeros((3, 1), np.float32)),
        lambda file: np.save(file, np.zeros(2, np.float32)),
        lambda file: np.save(file, np.zeros((2, 1))),
        lambda file: np.save(file, np.full((2, 1), np.nan, np.float32)),
    ],
    ids=["cut", "count", "shape", "type", "not finite"],
)
def test_wrong_vectors_are_computed_again(tmp_path, spoil):
    embedded(tmp_path, ["a", "bc"])
    (file,) = tmp_path.iterdir()
    kept = file.read_bytes()
    spoil(file)
    assert embedded(tmp_path, ["a", "bc"]) == ([1, 2], ["a", "bc"])
    assert file.read_bytes() == kept

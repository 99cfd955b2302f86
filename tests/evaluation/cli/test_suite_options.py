"""Which suite the options name, and what searches its corpus."""

import inspect
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fruit_suite import DOCUMENTS, QUERIES, systems
from secondpass import Candidate, Reranker
from secondpass.cli.options import grouped
from secondpass_evaluation import (
    IndexFaultError,
    StaleIndexError,
    compare,
    load_suite,
    open_index,
)
from secondpass_evaluation.cli.first_stages import CachedEmbedder
from secondpass_evaluation.cli.suite_options import (
    DocumentOptions,
    SuiteOptions,
    VectorOptions,
    cache_folder,
)
from secondpass_evaluation.search.embedders import EmbeddedEmbedder
from secondpass_evaluation.search.indexing import build_index


@pytest.fixture
def opened(suite):
    """The suite of some options, and the retriever over its corpus by stages."""

    def opened(name=suite, *, limit=None, qrels=None, **options):
        parts = SuiteOptions(qrels=qrels, documents=DocumentOptions(**options))
        found = parts.open(name, limit=limit, depth=2)
        return found.suite, found.retriever(VectorOptions(), lambda *_: None)

    return opened


def ids(retriever, query="sweet fruit"):
    return [candidate.id for candidate in retriever.retrieve(query, 5, "lexical")]


def test_the_corpus_is_searched(opened):
    found, retriever = opened()
    assert (list(found.queries), len(found.corpus)) == (list(QUERIES), len(DOCUMENTS))
    assert ids(retriever)[0] == "pear"


def test_candidates_may_be_those_of_a_run(secondpass, suite, write):
    lines = [f"{q} Q0 {d} 1 {-at} t\n" for q in QUERIES for at, d in enumerate(DOCUMENTS)]
    run = write("run", "".join(lines))
    told = secondpass("eval", suite, "--run", run, "--preset", "lexical", "--json")
    assert list(systems(told)) == ["given", "given+rerank"]


@dataclass(frozen=True)
class Inner:
    b: int = 2
    c: str = "c"


@dataclass(frozen=True)
class Outer:
    a: int = 1
    inner: Inner = Inner()
    d: bool = False


def test_a_group_is_one_parameter_and_its_options_stand_in_its_place():
    calls = []

    @grouped
    def command(*, first: int = 0, group: Outer, last: str = "z") -> None:
        calls.append((first, group, last))

    options = inspect.signature(command).parameters
    assert {name: option.default for name, option in options.items()} == {
        "first": 0, "a": 1, "b": 2, "c": "c", "d": False, "last": "z",
    }  # fmt: skip
    assert list(options) == ["first", "a", "b", "c", "d", "last"]
    command(first=5, a=6, b=7, c="x", d=True, last="y")
    assert calls == [(5, Outer(6, Inner(7, "x"), True), "y")]


# ---------------------------------------------------------------------- ``secondpass eval --corpu


FILES = {
    "owl.md": "# Owls\n\nThe owl hunts mice at night.",
    "ship.txt": "Ships cross the sea under sail.",
    "more/cat.html": "<title>Cats</title><p>A cat sleeps for most of the day.</p>",
}
ASKED = [
    {"query": "who hunts at night", "relevant": ["owl.md#1"]},
    {"query": "how long do cats sleep", "relevant": ["more/cat.html#1"]},
]


@pytest.fixture
def asked(write, tmp_path):
    for name, text in FILES.items():
        write(f"docs/{name}", text)
    write("docs/picture.png", b"\x89PNG\0\0")
    return write("asked.jsonl", ASKED)


def test_a_folder_is_searched_in_all_modes(secondpass, asked, tmp_path):
    docs = tmp_path / "docs"
    call = ("eval", asked, "--preset", "lexical", "--json", "--no-cache", "--corpus", docs)
    told = secondpass(*call)
    found = systems(told)
    assert [*found] == ["vector", "lexical", "hybrid", "hybrid+rerank"]
    assert {one["status"] for one in found.values()} == {"ran"}
    assert found["vector"]["means"]["R@100"] == 1.0
    assert "picture.png" in told.flat


def test_python_takes_them_too(asked, tmp_path):
    build_index(tmp_path / "docs", tmp_path / "words")
    index = open_index(tmp_path / "words")
    suites = [
        load_suite(asked, corpus=corpus)
        for corpus in (tmp_path / "docs", tmp_path / "words", str(tmp_path / "words"), index.corpus)
    ]
    owl = next(one for one in suites[0].corpus if one.id == "owl.md#1")
    assert owl == Candidate(
        "Owls\n# Owls\n\nThe owl hunts mice at night.",
        "owl.md#1",
        metadata={"path": "owl.md", "passage": 1},
    )
    assert all(suite == suites[0] for suite in suites)
    found = compare("lexical", suites[0], retriever=index, first_stages=["lexical"])
    assert [one.name for one in found.ran] == ["lexical", "lexical+lexical"]
    (tmp_path / "docs" / "owl.md").unlink()
    with pytest.raises(StaleIndexError, match=r"owl\.md no longer exists"):
        load_suite(asked, corpus=tmp_path / "words")
    (tmp_path / "words" / "secondpass-index.json").write_text("{")
    with pytest.raises(IndexFaultError):
        open_index(tmp_path / "words")


class Reading:
    """Keeps what it is shown."""

    model_name = "reading"

    def __init__(self) -> None:
        self.texts: set[str] = set()

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        self.texts.update(documents)
        return [1.0] * len(documents)


def test_rerankers_behind_an_index_read_titles(asked, tmp_path):
    build_index(tmp_path / "docs", tmp_path / "words")
    index, reading = open_index(tmp_path / "words"), Reading()
    suite = load_suite(asked, corpus=index.corpus)
    compare(Reranker(reading), suite, retriever=index, first_stages=["lexical"])
    assert "Cats\nA cat sleeps for most of the day." in reading.texts


# ---------------------------------------------------------------------- vectors of a corpus


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

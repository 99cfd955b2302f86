"""What a build reads, keeps and leaves alone."""

import hashlib
import os
import subprocess
import sys
import threading

import pytest

from forked import NEEDS_FORK
from letter_embedder import LetterEmbedder, ids
from secondpass import InputError
from secondpass_evaluation import FormatError, HybridRetriever
from secondpass_evaluation.errors import IndexFaultError
from secondpass_evaluation.search import documents, indexing
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.index_files import read_manifest, write_manifest
from secondpass_evaluation.search.indexing import build_index
from secondpass_evaluation.search.selection import MANIFEST


def test_build_summary_and_progress(docs, tmp_path) -> None:
    steps = []
    (docs / "x.bin").write_bytes(b"\0")
    folder, embedder = tmp_path / "index", LetterEmbedder()
    built = build_index(docs, folder, embedder, progress=lambda *step: steps.append(step))
    assert (built.made, built.files, built.passages, built.vectors) == (True, 3, 4, 4)
    assert (built.kept, built.embedder, built.skipped) == (0, "letters", {"x.bin": "is not text"})
    assert steps[:2] == [("reading files", 0, None), ("reading files", 0, 4)]
    assert ("indexing words", 0, None) in steps
    assert ("indexing words", 1, 1) in steps
    assert ("encoding passages", 4, 4) in steps
    assert steps[-1] == ("writing the index", 1, 1)
    index = open_index(folder, embedder)
    assert index.modes == ("vector", "lexical", "hybrid")
    assert ids(index.retrieve("owl", 5, "lexical"))[0] in {"owls.md#1", "cats.html#1"}
    assert "passages" in repr(index)
    with pytest.raises(IndexError):
        index.corpus[4]


@pytest.mark.parametrize("kind", ["new", "unchanged", "changed", "corpus"])
def test_every_slow_part_is_announced(docs, tmp_path, monkeypatch, kind) -> None:
    """While files are listed, read, hashed, encoded or written, some label is unfinished."""
    folder, embedder = tmp_path / "index", LetterEmbedder()
    if kind == "corpus":
        (docs / "corpus.jsonl").write_text('{"_id": "a", "text": "owl"}')
    elif kind != "new":
        build_index(docs, folder, embedder)
    if kind == "changed":
        (docs / "more.txt").write_text("More owls.")
    shown: dict[str, bool] = {}
    slow: list[tuple[str, bool]] = []

    def report(label: str, done: int, total: int | None) -> None:
        shown[label] = total is None or done < total

    def watch(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def watched(*arguments, **options):
            slow.append((name, any(shown.values())))
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)

    for name in ("entries_of", "_read", "read_corpus"):
        watch(documents, name)
    for name in ("HybridRetriever", "write_parts", "write_manifest"):
        watch(indexing, name)
    if kind in {"unchanged", "changed"}:
        watch(indexing, "open_existing")
        watch(indexing, "changes")
    watch(embedder, "embed")
    watch(hashlib, "file_digest")
    build_index(docs, folder, embedder, progress=report)
    assert slow
    assert all(announced for _, announced in slow), slow
    assert not any(shown.values())


def test_unchanged_source_is_not_rebuilt(docs, tmp_path) -> None:
    index, embedder = tmp_path / "index", LetterEmbedder()
    build_index(docs, index, embedder)
    before = (index / MANIFEST).read_bytes()
    os.utime(docs / "owls.md")  # another time, but the same content
    assert not build_index(docs, index, embedder).made
    assert (index / MANIFEST).read_bytes() == before
    assert len(embedder.seen) == 4
    assert build_index(docs, index, embedder, force=True).made
    assert len(embedder.seen) == 8
    assert (index / MANIFEST).read_bytes() != before


@pytest.mark.parametrize(
    "change",
    [
        lambda docs: {"passage_size": 99},
        lambda docs: {"embedder": LetterEmbedder("others")},
        lambda docs: {"embedder": None},
        lambda docs: {"source": docs / "deep"},
    ],
)
def test_other_settings_rebuild(docs, tmp_path, change) -> None:
    arguments = {"source": docs, "folder": tmp_path / "index", "embedder": LetterEmbedder()}
    build_index(**arguments)
    arguments |= change(docs)
    assert build_index(**arguments).made
    assert not build_index(**arguments).made


def test_an_older_reader_version_rebuilds(docs, tmp_path) -> None:
    folder = tmp_path / "index"
    build_index(docs, folder, LetterEmbedder())
    manifest = read_manifest(folder)
    del manifest["source"]["reader"]  # as before there were versions
    write_manifest(folder, manifest)
    assert len(open_index(folder, LetterEmbedder()).corpus) > 0
    built = build_index(docs, folder, LetterEmbedder())
    assert (built.made, built.kept) == (True, built.vectors)
    assert not build_index(docs, folder, LetterEmbedder()).made


def test_words_of_other_rules_rebuild(docs, tmp_path) -> None:
    folder = tmp_path / "index"
    build_index(docs, folder, LetterEmbedder())
    manifest = read_manifest(folder)
    del manifest["words"]  # as before there were versions
    write_manifest(folder, manifest)
    for stale_ok in (False, True):
        with pytest.raises(IndexFaultError, match=r"split by other rules.*secondpass index .*docs"):
            open_index(folder, LetterEmbedder(), stale_ok=stale_ok)
    built = build_index(docs, folder, LetterEmbedder())
    assert (built.made, built.kept) == (True, built.vectors)
    assert open_index(folder, LetterEmbedder()).retrieve("owl", 1, "lexical")
    assert not build_index(docs, folder, LetterEmbedder()).made


def test_vectors_of_unchanged_texts_are_kept(docs, tmp_path) -> None:
    build_index(docs, tmp_path / "index", LetterEmbedder())
    (docs / "new.txt").write_text("A new text.")
    (docs / "owls.md").write_text("# Owls\n\nThe owl sleeps.\n\n## Food\n\nMice, mostly.\n")
    embedder = LetterEmbedder()
    built = build_index(docs, tmp_path / "index", embedder)
    assert (built.kept, built.vectors) == (3, 5)
    assert sorted(embedder.seen) == ["Owls\n# Owls\n\nThe owl sleeps.", "new\nA new text."]
    index = open_index(tmp_path / "index", embedder)
    fresh = HybridRetriever(list(index.corpus), LetterEmbedder())
    assert index.retrieve("mice", 9, "vector") == fresh.retrieve("mice", 9, "vector")
    others = LetterEmbedder("others")
    assert build_index(docs, tmp_path / "index", others).kept == 0
    assert len(others.seen) == 5


def test_index_inside_its_source_is_ignored(docs) -> None:
    build_index(docs, docs / "index")
    assert not build_index(docs, docs / "index").made
    assert len(open_index(docs / "index").corpus) == 4
    build_index(docs, docs / "deep" / "other")
    assert len(documents.read_source(docs).corpus) == 4
    assert len(open_index(docs / "index").corpus) == 4


@pytest.mark.parametrize("source", ["index", "index/parts-*", "index/parts-*/passages.jsonl"])
@pytest.mark.parametrize("into", ["index", "new"])
def test_an_index_is_no_source(index, into, source) -> None:
    before = (index / MANIFEST).read_bytes()
    with pytest.raises(InputError, match="is an index; name the documents"):
        build_index(*index.parent.glob(source), index.with_name(into))
    assert (index / MANIFEST).read_bytes() == before
    assert not index.with_name("new").exists()


def test_embedder_without_a_name_is_refused(docs, tmp_path) -> None:
    class Nameless:
        def embed(self, texts):
            raise NotImplementedError

    with pytest.raises(InputError, match="embedder: needs a 'name'"):
        build_index(docs, tmp_path / "index", Nameless())


def test_other_folders_are_not_touched(docs, tmp_path) -> None:
    with pytest.raises(IndexFaultError, match=r"has other files \(cats.html, deep, owls.md\)"):
        build_index(docs, docs)
    with pytest.raises(IndexFaultError, match="is a file"):
        build_index(docs, docs / "owls.md")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(IndexFaultError, match="is a broken link"):
        build_index(docs, tmp_path / "gone")
    assert sorted(os.listdir(docs)) == ["cats.html", "deep", "owls.md"]


def test_patterns_that_match_nothing_are_named(docs, tmp_path) -> None:
    with pytest.raises(IndexFaultError, match=r"has no file that matches '\*\.pdf' or 'x'"):
        build_index(docs, tmp_path / "index", include=["*.pdf", "x"])


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.json"])
def test_a_table_is_no_document(tmp_path, name) -> None:
    (tmp_path / name).write_text("id,text\n1,owl\n")
    with pytest.raises(InputError, match=f"{name}: is neither text nor JSON lines; convert the"):
        build_index(tmp_path / name, tmp_path / "index")


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        (None, "", IndexFaultError, "has no text to index$"),
        ("a", "\0", IndexFaultError, r"no text to index \(1 file skipped: a is not text\)"),
        ("corpus.jsonl", '{"_id":1,"text":""}\n{', FormatError, "corpus.jsonl:2: is not JSON"),
    ],
)
def test_failed_build_leaves_no_folder(tmp_path, name, content, kind, message) -> None:
    docs = tmp_path / "docs"
    with pytest.raises(FileNotFoundError, match="docs"):
        build_index(docs, tmp_path / "index")
    docs.mkdir()
    if name:
        (docs / name).write_text(content)
    with pytest.raises(kind, match=message):
        build_index(docs, tmp_path / "index")
    assert not (tmp_path / "index").exists()


class Failing(LetterEmbedder):
    def embed(self, texts):
        raise OSError(28, "No space left on device")


def test_failed_build_leaves_the_index_unchanged(docs, index, tmp_path) -> None:
    before = sorted(index.rglob("*"))
    (docs / "new.txt").write_text("x")
    with pytest.raises(OSError, match="No space"):
        build_index(docs, index, Failing())
    assert sorted(index.rglob("*")) == before
    with pytest.raises(OSError, match="No space"):
        build_index(docs, tmp_path / "fresh", Failing())
    assert not (tmp_path / "fresh").exists()


def test_leftovers_of_killed_builds_are_removed(docs, index, tmp_path) -> None:
    for folder in (index, tmp_path / "first"):
        left = folder / f"parts-{'0' * 32}"
        left.mkdir(parents=True)
        with pytest.raises(OSError, match="No space"):
            build_index(docs, folder, Failing(), force=True)
        assert not left.exists()
    assert open_index(index, LetterEmbedder())


def test_concurrent_builds_of_one_folder_are_refused(docs, index) -> None:
    (docs / "new.txt").write_text("x")

    class Meanwhile(LetterEmbedder):
        def embed(self, texts):
            with pytest.raises(IndexFaultError, match="another process is building this index"):
                build_index(docs, index, LetterEmbedder())
            return super().embed(texts)

    assert build_index(docs, index, Meanwhile()).made
    assert len(open_index(index, LetterEmbedder()).corpus) == 5


def test_readers_never_see_a_partial_index(docs, index) -> None:
    done = threading.Event()

    def renew() -> None:
        try:
            for position in range(8):
                (docs / "new.txt").write_text(f"text {position}")
                build_index(docs, index, LetterEmbedder())
        finally:
            done.set()

    thread = threading.Thread(target=renew)
    thread.start()
    opened = 0
    while not done.is_set() or not opened:
        opened_index = open_index(index, LetterEmbedder(), stale_ok=True)
        found = set(ids(opened_index.retrieve("mice owl", 2, "lexical")))
        assert found == {"owls.md#1", "owls.md#2"} or "cats.html#1" in found
        opened += 1
    thread.join()


_KILLS = '''
import os, signal, sys
from pathlib import Path
import numpy as np
import bm25s
from secondpass_evaluation.errors import IndexFaultError
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.indexing import build_index

class Letters:
    name = "letters"
    def embed(self, texts):
        counts = np.array([[text.count(one) for one in "abcdefgh"] for text in texts], float) + .01
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

root = Path(sys.argv[1])
docs, index = root / "docs", root / "index"
docs.mkdir()
(docs / "a.txt").write_text("old")
build_index(docs, root / "other", Letters())  # imports, once for all children
if sys.argv[2] == "renewed":
    build_index(docs, index, Letters())
    (docs / "a.txt").write_text("newer")
WATCHED = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.listdir", "os.scandir"}

def killed_at(number):
    """Whether a build was killed, at the event of that number."""
    child = os.fork()
    if not child:
        seen = 0
        def hook(event, arguments):
            nonlocal seen
            if event in WATCHED and str(index) in str(arguments):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        build_index(docs, index, Letters())
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

number, states = 1, []
while killed_at(number):
    number += 1
    try:
        [found] = open_index(index, Letters(), stale_ok=True).retrieve("old newer", 5, "vector")
        states.append(found.text)
    except FileNotFoundError:
        states.append("none yet")
    except IndexFaultError as error:
        assert "not an index" in str(error) or "indexing was interrupted" in str(error), error
        states.append("none yet")
    if states[-1] == "newer":
        (docs / "a.txt").write_text("old")
        build_index(docs, index, Letters())
        (docs / "a.txt").write_text("newer")
[found] = open_index(index, Letters()).retrieve("old newer", 5, "vector")
states.append(found.text)
assert len([*index.glob("parts-*")]) == 1, "what the killed have left is swept"
print(*states, sep=",")
'''


@NEEDS_FORK
@pytest.mark.parametrize(("what", "before", "after"), [
    ("renewed", "old", "newer"),
    pytest.param("first", "none yet", "old", marks=pytest.mark.long),
])  # fmt: skip
def test_killed_build_leaves_the_old_index_or_the_new(tmp_path, what, before, after):
    """Killed at every file that is opened, made, moved or taken away, one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", _KILLS, str(tmp_path), what],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    states = done.stdout.strip().split(",")
    assert len(states) > 20
    assert set(states) <= {before, after}
    assert states[0] == before
    assert states[-1] == after

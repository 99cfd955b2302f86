"""Indexes in folders: what is read, what is kept, and what is never served."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secondpass import Candidate, InputError
from secondpass.evaluation import FormatError, HybridRetriever, write_corpus
from secondpass.formats.errors import IndexFaultError, StaleIndexError
from secondpass.search.documents import read_source
from secondpass.search.index import open_index
from secondpass.search.index_files import MANIFEST, is_index, read_manifest, write_manifest
from secondpass.search.indexing import build

LETTERS = "abcdefghijklmnopqrstuvwxyz"
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class Letters:
    """Counts letters."""

    def __init__(self, name: str = "letters") -> None:
        self.name = name
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.seen.extend(texts)
        counts = np.array([[text.lower().count(one) for one in LETTERS] for text in texts], float)
        counts += 0.01
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture
def docs(tmp_path) -> Path:
    folder = tmp_path / "docs"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "owls.md").write_text("# Owls\n\nThe owl hunts mice.\n\n## Food\n\nMice, mostly.\n")
    (folder / "deep" / "er" / "ships.txt").write_text("Ships cross the sea.")
    (folder / "cats.html").write_text("<title>Cats</title><p>A cat fears the owl.")
    return folder


def ids(found) -> list[str]:
    return [candidate.id for candidate in found]


# ------------------------------------------------------------------ what is read


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\n\ntwo", [("a", "one\n\ntwo")]),
        ("a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree", [("a", "one\ntwo\nthree")]),
        ("a.txt", "Ünï".encode("utf-16"), [("a", "Ünï")]),
        ("no-suffix", "one", [("no-suffix", "one")]),
        ("a.md", "text first\n\n# Named", [("Named", "text first"), ("Named", "# Named")]),
        (
            "a.md",
            "# Guide #\n\nHello\n\n## Install\n### By pip\n\npip install it\n\nLast\n-\n\nend",
            [
                ("Guide", "# Guide #\n\nHello"),
                ("Guide > By pip", "## Install\n\n### By pip\n\npip install it"),
                ("Guide > Last", "Last\n-\n\nend"),
            ],
        ),
        (
            "a.md",
            '---\ntitle: "Of owls"\ntags: x\n---\nhoo\n\n```\n# no heading\n\nx\n```\n',
            [("Of owls", 'title: "Of owls"\ntags: x\n\nhoo\n\n```\n# no heading\n\nx\n```')],
        ),
        ("a.md", "# C#\nsharp", [("C#", "# C#\n\nsharp")]),
        ("a.md", "---\nno end of it", [("a", "---\nno end of it")]),
        ("a.md", "~~~\nnever closed\n# x", [("a", "~~~\nnever closed\n# x")]),
        ("a.md", "- a\n\n  ```\n  b\n\n  # c\n  ```", [("a", "- a\n\n  ```\n  b\n\n  # c\n  ```")]),
        ("a.md", "Two\nlines\n===\nx", [("Two lines", "Two\nlines\n===\n\nx")]),
        ("a.md", "<pre>\n# x\n</pre>", [("a", "<pre>\n# x\n</pre>")]),
        (
            "a.html",
            "<html><head><title>On &amp; off</title><style>p{}</style><script>if (a<b) x()"
            "</script></head><body><p>One\n  two<br>three<p>four<script>bad()</script></body>",
            [("On & off", "One two\nthree\n\nfour")],
        ),
        (
            "a.htm",
            "<h1><div>Top</div></h1><ul><li>a<li>b</ul><h2>Low<p>under</p>"
            "<table><tr><td>1</td><td>2</td></tr></table><pre> x\n  y </pre>",
            [("Top", "Top\n\na\n\nb"), ("Top > Low", "Low\n\nunder\n\n1 2\n\n x\n  y")],
        ),
        ("a.html", "<template>no</template>yes</style>", [("a", "yes")]),
        ("a.html", "<p>yes<style>never closed p { }", [("a", "yes")]),
        ("a.html", "<!-- <script> -->a<script src=x />b<!-- no", [("a", "ab")]),
        ("a.html", "1 < 2 <b>so</b> <a", [("a", "1 < 2 so <a")]),
        ("a.html", "<template><script>x</script>no</template>yes", [("a", "yes")]),
        ("a.html", "<button>Save</button><button>Open</button>it", [("a", "Save Open it")]),
        (
            "a.html",
            "<svg><title>Menu</title></svg><h1>Owls</h1>",
            [("Owls", "Menu"), ("Owls", "Owls")],
        ),
        ("a.html", b"<meta charset=iso-8859-1><p>\xfcber", [("a", "über")]),
        ("a.html", b'<meta http-equiv=x content="text/html; charset=latin1">\xe9', [("a", "é")]),
    ],
)
def test_files_become_titled_passages(tmp_path, name, content, expected) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    read = read_source(tmp_path)
    assert [(one.metadata["title"], one.text) for one in read.corpus] == expected
    assert read.skipped == {}
    assert read_source(path).corpus == read.corpus


@pytest.mark.parametrize("mark", ["<!--", "<a ", "<script>", "<", "</", "<!a", "<?", "&#x"])
def test_a_page_of_marks_that_never_end_is_read_in_time(tmp_path, mark) -> None:
    """For some of them Python's parser alone would take hours."""
    (tmp_path / "a.html").write_text("<p>text</p>" + mark * 100_000)
    assert read_source(tmp_path).corpus[0].text.startswith("text")


def test_elements_that_are_left_out_and_never_end_take_no_time_by_their_square(tmp_path) -> None:
    """They took some minutes, so this would reach the time limit of a test."""
    (tmp_path / "a.html").write_text("<p>text" + "<template>" * 200_000 + "</style>" * 200_000)
    assert [one.text for one in read_source(tmp_path).corpus] == ["text"]


marks = st.sampled_from(["#", "##", "```", "-", "=", ".", "。", "\n", "\n\n", " ", "<p>", "<h1>"])
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
documents = st.lists(st.one_of(words, marks), max_size=30).map(" ".join) | st.lists(
    st.one_of(words, marks), max_size=30
).map("\n".join)


@shared_folder
@given(documents, st.integers(50, 90), st.sampled_from(["a.md", "a.txt"]))
def test_nothing_of_a_text_is_lost_and_no_passage_is_too_long(tmp_path, text, size, name) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    corpus = read_source(tmp_path / name, passage_size=size).corpus
    assert [one.id for one in corpus] == [f"{name}#{n}" for n in range(1, len(corpus) + 1)]
    assert all(0 < len(one.text) <= size for one in corpus)
    kept = "".join("".join(one.text for one in corpus).split())
    given_text = "".join(text.split())
    if name == "a.txt" or "---" not in text:
        assert kept == given_text


def test_a_passage_ends_where_a_paragraph_does_else_a_sentence_else_a_word(tmp_path) -> None:
    (tmp_path / "a.txt").write_text(
        f"{'a' * 30}\n\n{'b' * 30}\n\n{'c' * 10}\n\nOne two three four five six seven. Eight nine "
        f"ten eleven twelve thirteen fourteen\n\n{'d ' * 40}\n\n{'e' * 120}"
    )
    assert [one.text for one in read_source(tmp_path, passage_size=50).corpus] == [
        "a" * 30,
        f"{'b' * 30}\n\n{'c' * 10}",
        "One two three four five six seven.",
        "Eight nine ten eleven twelve thirteen fourteen",
        ("d " * 25).strip(),
        ("d " * 15).strip(),
        "e" * 50,
        "e" * 50,
        "e" * 20,
    ]


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("他说\uff1a“好。”" * 9, ["他说\uff1a“好。”" * 7, "他说\uff1a“好。”" * 2]),
        ("春天来了、花" * 10, ["春天来了、花" * 7 + "春天来了、", "花春天来了、花春天来了、花"]),
        ("春" * 120, ["春" * 50, "春" * 50, "春" * 20]),
        ("กี่" * 20, ["กี่" * 16, "กี่" * 4]),
        ("សួស្តី។" * 10, ["សួស្តី។" * 7, "សួស្តី។" * 3]),
    ],
)
def test_passages_of_languages_without_spaces(tmp_path, text, passages) -> None:
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    assert [one.text for one in read_source(tmp_path, passage_size=50).corpus] == passages


def test_what_is_no_text_is_named_and_skipped(tmp_path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "good.txt").write_text("good")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\0\0\0")
    (folder / "latin.txt").write_bytes(b"\xfcber")
    (folder / "late.txt").write_bytes(b"x" * 9000 + b"\0")
    (folder / "wide.html").write_bytes(b"<meta charset=utf-16><p>\xfcber")
    (folder / "empty.md").write_text("\n \n")
    (folder / "script.html").write_text("<script>x</script>")
    (folder / "gone").symlink_to(folder / "nowhere")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "itself").symlink_to(folder / "itself")
    os.mkfifo(folder / "pipe")
    (folder / ".hidden").write_text("hidden")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("hidden")
    read = read_source(folder)
    assert ids(read.corpus) == ["good.txt#1"]
    no_file = "is a link to a folder, or not a regular file"
    assert read.skipped == {
        "picture.png": "is not text",
        "latin.txt": "is not text, or not UTF-8",
        "late.txt": "is not text, or not UTF-8",
        "wide.html": "is not text, or not UTF-8",
        "empty.md": "has no text",
        "script.html": "has no text",
        "gone": no_file,
        "elsewhere": no_file,
        "itself": no_file,
        "pipe": no_file,
    }


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux")
def test_files_that_cannot_be_read_and_names_that_are_not_utf8_are_told(tmp_path) -> None:
    (tmp_path / "bad.txt").symlink_to("/proc/self/mem")
    (tmp_path / os.fsdecode(b"na\xefve.txt")).write_text("x")
    (tmp_path / "good.txt").write_text("good")
    read = read_source(tmp_path)
    assert ids(read.corpus) == ["good.txt#1"]
    assert read.skipped == {
        "bad.txt": "cannot be read: Input/output error",
        "na\\udcefve.txt": "has a name that is not UTF-8",
    }


_CLOSED = """
import sys
from secondpass.search.index import open_index
from secondpass.search.indexing import build

build("docs", "index")
print(build("docs", "index").made, open_index("index").changes)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_file_that_may_not_be_read_makes_an_index_stale_when_it_may(docs, monkeypatch) -> None:
    monkeypatch.chdir(docs.parent)
    (docs / "closed.txt").write_text("an owl")
    (docs / "closed.txt").chmod(0)
    may_read_all = os.access(docs / "closed.txt", os.R_OK)
    if may_read_all and shutil.which("setpriv") is None:
        pytest.skip("needs a user who may not read everything, or setpriv")
    less = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if may_read_all else []
    done = subprocess.run(
        [*less, sys.executable, "-c", _CLOSED], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False ()\n", "")
    (docs / "closed.txt").chmod(0o600)
    with pytest.raises(StaleIndexError, match=r"closed\.txt has changed"):
        open_index("index")


def test_a_folder_with_a_corpus_is_that_corpus(tmp_path) -> None:
    corpus = [Candidate("text", "1", metadata={"title": "T", "year": 1}), Candidate("", "2")]
    write_corpus(tmp_path / "corpus.jsonl", corpus)
    (tmp_path / "queries.jsonl").write_text("{}")
    assert read_source(tmp_path).corpus == corpus
    assert read_source(tmp_path / "corpus.jsonl").corpus == corpus


@pytest.mark.parametrize("size", [49, 0, True, "100", 60.5])
def test_a_passage_size_that_cannot_be_is_told(tmp_path, size) -> None:
    with pytest.raises(InputError, match="passage_size: must be an integer of 50 or more"):
        read_source(tmp_path, passage_size=size)


# ------------------------------------------------------------------ what is kept

texts = st.text(st.sampled_from([*"abc  é", "\ud800", "\n", "\u2028"]), max_size=12)
metadata = st.dictionaries(
    st.sampled_from(["title", "x"]),
    st.none() | st.booleans() | texts | st.integers() | st.lists(texts, max_size=2),
)


@settings(max_examples=25)
@given(
    corpus=st.lists(st.tuples(texts, metadata), min_size=1, max_size=8),
    query=texts,
    with_vectors=st.booleans(),
)
def test_an_index_answers_as_a_retriever_in_memory(
    tmp_path_factory, corpus, query, with_vectors
) -> None:
    folder = tmp_path_factory.mktemp("index")
    lines = [
        json.dumps({"_id": str(at), "text": text, "metadata": own})
        for at, (text, own) in enumerate(corpus)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines), newline="")
    embedder = Letters() if with_vectors else None
    build(folder / "corpus.jsonl", folder / "index", embedder)
    index = open_index(folder / "index", embedder)
    in_memory = HybridRetriever(read_source(folder).corpus, embedder)
    assert list(index.corpus) == list(in_memory.corpus)
    assert index.corpus[-1] == in_memory.corpus[-1]
    assert index.corpus[:1] == [in_memory.corpus[0]]
    assert index.modes == in_memory.modes
    for mode in index.modes:
        assert index.retrieve(query, 9, mode, 1) == in_memory.retrieve(query, 9, mode, 1)


def test_what_was_built_is_told(docs, tmp_path) -> None:
    told: list[tuple[str, int, int | None]] = []
    (docs / "x.bin").write_bytes(b"\0")
    built = build(docs, tmp_path / "index", Letters(), progress=lambda *one: told.append(one))
    assert (built.made, built.files, built.passages, built.vectors) == (True, 3, 4, 4)
    assert (built.kept, built.embedder, built.skipped) == (0, "letters", {"x.bin": "is not text"})
    assert told[0] == ("reading files", 0, 4)
    assert ("indexing words", 0, None) in told
    assert ("indexing words", 1, 1) in told
    assert told[-1] == ("encoding passages", 4, 4)
    index = open_index(tmp_path / "index", Letters())
    assert index.modes == ("vector", "lexical", "hybrid")
    assert ids(index.retrieve("owl", 5, "lexical"))[0] in {"owls.md#1", "cats.html#1"}
    assert "passages" in repr(index)
    with pytest.raises(IndexError):
        index.corpus[4]


def test_an_unchanged_source_is_left_alone(docs, tmp_path) -> None:
    index, embedder = tmp_path / "index", Letters()
    build(docs, index, embedder)
    before = (index / MANIFEST).read_bytes()
    os.utime(docs / "owls.md")  # another time, but the same content
    assert not build(docs, index, embedder).made
    assert (index / MANIFEST).read_bytes() == before
    assert len(embedder.seen) == 4
    assert build(docs, index, embedder, force=True).made
    assert len(embedder.seen) == 8
    assert (index / MANIFEST).read_bytes() != before


@pytest.mark.parametrize(
    "change",
    [
        lambda docs: {"passage_size": 99},
        lambda docs: {"embedder": Letters("others")},
        lambda docs: {"embedder": None},
        lambda docs: {"source": docs / "deep"},
    ],
)
def test_other_settings_rebuild(docs, tmp_path, change) -> None:
    arguments = {"source": docs, "folder": tmp_path / "index", "embedder": Letters()}
    build(**arguments)
    arguments |= change(docs)
    assert build(**arguments).made
    assert not build(**arguments).made


def test_an_older_reader_version_rebuilds(docs, tmp_path) -> None:
    folder = tmp_path / "index"
    build(docs, folder, Letters())
    manifest = read_manifest(folder)
    del manifest["source"]["reader"]  # as before there were versions
    write_manifest(folder, manifest)
    assert len(open_index(folder, Letters()).corpus) > 0
    built = build(docs, folder, Letters())
    assert (built.made, built.kept) == (True, built.vectors)
    assert not build(docs, folder, Letters()).made


@pytest.mark.parametrize("embedder", [Letters(), None])
def test_an_older_format_is_refused_and_a_build_keeps_its_vectors(docs, tmp_path, embedder) -> None:
    folder = tmp_path / "index"
    build(docs, folder, embedder, passage_size=99)
    manifest = read_manifest(folder)
    write_manifest(folder, {**manifest, "version": 1})
    options = "--passage-size 99" if embedder else "--passage-size 99 --words-only"
    for stale_ok in (False, True):
        with pytest.raises(IndexFaultError) as error:
            open_index(folder, embedder, stale_ok=stale_ok)
        assert str(error.value) == (
            f"{folder}: its format is version 1; this program reads 2. "
            f"To rebuild it, run: secondpass index {docs} --into {folder} {options}"
        )
    built = build(docs, folder, embedder, passage_size=99)
    assert (built.made, built.kept) == (True, built.vectors)
    assert len(open_index(folder, embedder).corpus) == manifest["counts"]["passages"]
    assert len([*folder.glob("parts-*")]) == 1
    assert not build(docs, folder, embedder, passage_size=99).made


def test_vectors_of_texts_that_stay_are_kept(docs, tmp_path) -> None:
    build(docs, tmp_path / "index", Letters())
    (docs / "new.txt").write_text("A new text.")
    (docs / "owls.md").write_text("# Owls\n\nThe owl sleeps.\n\n## Food\n\nMice, mostly.\n")
    embedder = Letters()
    built = build(docs, tmp_path / "index", embedder)
    assert (built.kept, built.vectors) == (3, 5)
    assert sorted(embedder.seen) == ["Owls\n# Owls\n\nThe owl sleeps.", "new\nA new text."]
    index = open_index(tmp_path / "index", embedder)
    fresh = HybridRetriever(list(index.corpus), Letters())
    assert index.retrieve("mice", 9, "vector") == fresh.retrieve("mice", 9, "vector")
    others = Letters("others")
    assert build(docs, tmp_path / "index", others).kept == 0
    assert len(others.seen) == 5


def test_an_index_inside_its_source_is_not_part_of_it(docs) -> None:
    build(docs, docs / "index")
    assert not build(docs, docs / "index").made
    assert len(open_index(docs / "index").corpus) == 4


# ------------------------------------------------------------------ what is refused


@pytest.fixture
def index(docs, tmp_path) -> Path:
    folder = tmp_path / "index"
    build(docs, folder, Letters())
    return folder


def parts(index: Path) -> list[Path]:
    return sorted(path for path in index.glob("parts-*/**/*") if path.is_file())


def test_every_part_is_checked(index) -> None:
    found = parts(index)
    assert len(found) >= 9
    for path in found:
        content = path.read_bytes()
        name = path.relative_to(next(index.glob("parts-*"))).as_posix()
        flipped = bytes([content[0] ^ 1]) + content[1:]
        for damaged, told in [
            (content[:-1], "was changed: its size differs"),
            (b"", "was changed: its size differs"),
            (flipped, "was changed"),
            (None, "is missing"),
        ]:
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(IndexFaultError, match=f"its part {name} {told}.*To rebuild it"):
                open_index(index, Letters(), stale_ok=True)
        path.write_bytes(content)
    assert open_index(index, Letters())


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_manifest_that_was_changed_is_told_or_says_the_same(index, data) -> None:
    path = index / MANIFEST
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    put = data.draw(st.binary(max_size=2))
    cut = data.draw(st.sampled_from([0, 1, len(content)]))
    path.write_bytes(content[:at] + put + content[at + cut :])
    try:
        try:
            assert ids(open_index(index, Letters()).retrieve("owl", 1, "lexical"))
        except IndexFaultError as error:
            assert str(error).startswith(str(index))
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("{}", "cannot be read"),
        ('{"format": "secondpass index", "version": 9}', "version 9; this program reads 2"),
        ('{"format": "secondpass index", "version": 1}', "version 1; this program reads 2"),
        ('{"format": "secondpass index", "version": 2}', "was changed"),
    ],
)
def test_a_manifest_of_another_kind_is_told(index, manifest, told) -> None:
    (index / MANIFEST).write_text(manifest)
    with pytest.raises(IndexFaultError, match=told):
        open_index(index, Letters())
    assert build(index.parent / "docs", index, Letters()).made
    assert open_index(index, Letters())


def test_what_is_no_index_is_told(docs, tmp_path) -> None:
    assert not is_index(docs)
    with pytest.raises(IndexFaultError, match=r"is not an index: it has no secondpass-index\.json"):
        open_index(docs)
    with pytest.raises(IndexFaultError, match="is not an index"):
        open_index(docs / "owls.md")
    with pytest.raises(FileNotFoundError):
        open_index(tmp_path / "absent")
    half = tmp_path / "half"
    (half / f"parts-{'0' * 32}").mkdir(parents=True)
    assert is_index(half)
    with pytest.raises(IndexFaultError, match="is incomplete: indexing was interrupted"):
        open_index(half)
    build(docs, half)
    assert [path.name for path in half.glob("parts-0*")] in ([], [next(half.glob("parts-*")).name])
    assert len([*half.glob("parts-*")]) == 1


def test_another_embedder_is_told(index, docs) -> None:
    with pytest.raises(IndexFaultError, match="by another embedder: letters, not others"):
        open_index(index, Letters("others"))
    with pytest.raises(IndexFaultError, match=r"another embedder \(letters\)"):
        open_index(index)


def test_an_embedder_without_a_name_is_refused(docs, tmp_path) -> None:
    class Nameless:
        def embed(self, texts):
            raise NotImplementedError

    with pytest.raises(InputError, match="embedder: needs a 'name'"):
        build(docs, tmp_path / "index", Nameless())


def rewrite_in_place(docs: Path) -> None:
    path = docs / "owls.md"
    path.write_text(path.read_text().replace("mice", "mink"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda docs: (docs / "new.txt").write_text("x"), "new.txt is new"),
        (lambda docs: (docs / "new.bin").write_bytes(b"\0"), "new.bin is new"),
        (lambda docs: (docs / "owls.md").write_text("x"), "owls.md has changed"),
        (rewrite_in_place, "owls.md has changed"),
        (lambda docs: (docs / "cats.html").unlink(), "cats.html no longer exists"),
        (lambda docs: docs.rename(docs.parent / "moved"), "docs no longer exists"),
        (
            lambda docs: [(docs / f"{at}.txt").write_text("x") for at in range(5)],
            "0.txt is new, 1.txt is new, 2.txt is new, and 2 more",
        ),
    ],
)
def test_a_stale_index_is_told_not_served(index, docs, change, told) -> None:
    os.utime(docs / "owls.md", ns=(1, 1))
    assert not open_index(index, Letters()).changes
    change(docs)
    with pytest.raises(StaleIndexError) as error:
        open_index(index, Letters())
    assert told in str(error.value)
    assert f"To rebuild it, run: secondpass index {docs} --into {index}" in str(error.value)
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.changes) == (str(error.value), error.value.changes)
    stale = open_index(index, Letters(), stale_ok=True)
    assert stale.changes == error.value.changes
    assert stale.retrieve("owl", 1)


def test_a_corpus_that_changes_makes_its_index_stale(tmp_path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    write_corpus(corpus, [Candidate("owl", "1")])
    build(corpus, tmp_path / "index")
    assert not build(corpus, tmp_path / "index", passage_size=99).made
    write_corpus(corpus, [Candidate("cat", "1")])
    with pytest.raises(StaleIndexError, match=r"corpus\.jsonl has changed"):
        open_index(tmp_path / "index")


def test_folders_of_others_are_not_touched(docs, tmp_path) -> None:
    with pytest.raises(IndexFaultError, match=r"has other files \(cats.html, deep, owls.md\)"):
        build(docs, docs)
    with pytest.raises(IndexFaultError, match="is a file"):
        build(docs, docs / "owls.md")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(IndexFaultError, match="is a broken link"):
        build(docs, tmp_path / "gone")
    assert sorted(os.listdir(docs)) == ["cats.html", "deep", "owls.md"]


@pytest.mark.parametrize(
    ("spoil", "kind", "told"),
    [
        (lambda docs: None, IndexFaultError, "has no text to index$"),
        (
            lambda docs: (docs / "a").write_bytes(b"\0"),
            IndexFaultError,
            r"no text to index \(1 files skipped: a\)",
        ),
        (
            lambda docs: (docs / "corpus.jsonl").write_text('{"_id":1,"text":""}\n{'),
            FormatError,
            "corpus.jsonl:2: is not JSON",
        ),
        (lambda docs: docs.rmdir(), FileNotFoundError, "docs"),
    ],
)
def test_a_source_that_cannot_be_indexed_leaves_no_trace(tmp_path, spoil, kind, told) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    spoil(docs)
    with pytest.raises(kind, match=told):
        build(docs, tmp_path / "index")
    assert not (tmp_path / "index").exists()


class Failing(Letters):
    def embed(self, texts):
        raise OSError(28, "No space left on device")


def test_a_fault_while_indexing_leaves_what_was_there(docs, index, tmp_path) -> None:
    before = sorted(index.rglob("*"))
    (docs / "new.txt").write_text("x")
    with pytest.raises(OSError, match="No space"):
        build(docs, index, Failing())
    assert sorted(index.rglob("*")) == before
    with pytest.raises(OSError, match="No space"):
        build(docs, tmp_path / "fresh", Failing())
    assert not (tmp_path / "fresh").exists()


def test_what_the_killed_have_left_is_swept_before_more_is_written(docs, index, tmp_path) -> None:
    for folder in (index, tmp_path / "first"):
        left = folder / f"parts-{'0' * 32}"
        left.mkdir(parents=True)
        with pytest.raises(OSError, match="No space"):
            build(docs, folder, Failing(), force=True)
        assert not left.exists()
    assert open_index(index, Letters())


# ------------------------------------------------------------------ at the same time


def test_two_do_not_index_into_one_folder_at_a_time(docs, index) -> None:
    (docs / "new.txt").write_text("x")

    class Meanwhile(Letters):
        def embed(self, texts):
            with pytest.raises(IndexFaultError, match="another process is building this index"):
                build(docs, index, Letters())
            return super().embed(texts)

    assert build(docs, index, Meanwhile()).made
    assert len(open_index(index, Letters()).corpus) == 5


def test_readers_never_meet_half_an_index(docs, index) -> None:
    done = threading.Event()

    def renew() -> None:
        try:
            for at in range(15):
                (docs / "new.txt").write_text(f"text {at}")
                build(docs, index, Letters())
        finally:
            done.set()

    thread = threading.Thread(target=renew)
    thread.start()
    opened = 0
    while not done.is_set() or not opened:
        found = open_index(index, Letters(), stale_ok=True).retrieve("mice owl", 2, "lexical")
        assert set(ids(found)) == {"owls.md#1", "owls.md#2"} or "cats.html#1" in ids(found)
        opened += 1
    thread.join()
    assert opened


_KILLS = '''
import os, signal, sys
from pathlib import Path
import numpy as np
import bm25s
from secondpass.formats.errors import IndexFaultError
from secondpass.search.index import open_index
from secondpass.search.indexing import build

class Letters:
    name = "letters"
    def embed(self, texts):
        counts = np.array([[text.count(one) for one in "abcdefgh"] for text in texts], float) + .01
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

root = Path(sys.argv[1])
docs, index = root / "docs", root / "index"
docs.mkdir()
(docs / "a.txt").write_text("old")
if sys.argv[2] == "renewed":
    build(docs, index, Letters())
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
        build(docs, index, Letters())
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
        build(docs, index, Letters())
        (docs / "a.txt").write_text("newer")
[found] = open_index(index, Letters()).retrieve("old newer", 5, "vector")
states.append(found.text)
assert len([*index.glob("parts-*")]) == 1, "what the killed have left is swept"
print(*states, sep=",")
'''


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize(("what", "before", "after"), [
    ("renewed", "old", "newer"),
    ("first", "none yet", "old"),
])  # fmt: skip
def test_a_kill_at_any_moment_leaves_the_old_index_or_the_new(tmp_path, what, before, after):
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

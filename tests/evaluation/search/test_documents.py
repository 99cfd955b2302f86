"""Files become titled passages; what is not text is skipped."""

import gzip
import os
from pathlib import Path

import pytest

from letter_embedder import ids
from secondpass import Candidate, InputError
from secondpass_evaluation import write_corpus
from secondpass_evaluation.search.documents import read_source


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
            [("Of owls", "hoo\n\n```\n# no heading\n\nx\n```")],
        ),
        ("a.md", "---\ntags:\n- x\n\n# why\na: {b: 1,\n}\n...\n# Owls", [("Owls", "# Owls")]),
        ("a.md", "+++\ntitle = 'Owls'\n[params]\nx = 1\n+++\nhoo", [("Owls", "hoo")]),
        ("a.md", "---\nIt is text: x\n\n---\ny", [("a", "---\nIt is text: x\n\n---\ny")]),
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
        ("a.html", "1 < 2 <b>so</b> <a", [("a", "1 < 2 so")]),
        ("a.html", "<p>a<!-->b<!-- c --!>d", [("a", "abd")]),
        ("a.html", "<body><p>a</body></html>b<p>c", [("a", "a\n\nb\n\nc")]),
        ("a.html", "<svg><symbol><title>Menu</title></symbol></svg>yes", [("a", "yes")]),
        ("a.html", "<template><script>x</script>no</template>yes", [("a", "yes")]),
        ("a.html", "<button>Save</button><button>Open</button>it", [("a", "Save Open it")]),
        (
            "a.html",
            "<svg><title>Menu</title></svg><h1>Owls</h1>",
            [("Owls", "Owls")],
        ),
        ("a.html", "<nav>Home<nav>x</nav>y</nav><p>text</p>", [("a", "text")]),
        ("a.html", "<nav>Home<p>never closed<main>text</main>", [("a", "text")]),
        ("a.html", "<nav><p>only this</p></nav>", [("a", "only this")]),
        (
            "a.html",
            "<div role=search><div>x</div></div>text<div>more</div>",
            [("a", "text\n\nmore")],
        ),
        (
            "a.html",
            "<h1>Top<a href='#top'>&para;</a></h1>C<a href='#s'>#</a> a<a href='#b'>2</a>",
            [("Top", "Top\n\nC# a2")],
        ),
        ("a.html", "<p>see <a href='#s'>§</a> 5<p> <a href='#'>↑</a>", [("a", "see § 5")]),
        ("a.html", "<dl><dt>f()<a href='#f'>¶</a><dd>g", [("a", "f()\n\ng")]),
        ("a.html", "<p>f<a class=headerlink href='#f'>¶</a>", [("a", "f")]),
        ("a.html", "<p>a<iframe><p>raw</p></iframe>b", [("a", "a b")]),
        ("a.html", "<p>a<noscript>x</noscript><canvas>x</canvas><video>x</video>b", [("a", "ab")]),
        ("a.html", "<datalist><option>x</datalist>a<dialog>x</dialog>", [("a", "a")]),
        ("a.html", "<dialog open>a</dialog><p hidden>x<p hidden=until-found>b", [("a", "a\n\nb")]),
        ("a.html", "<div style='color:red; Display : none'>x<main>y</main></div>a", [("a", "a")]),
        ("a.html", "<body style='display:none'><h2 hidden>x</h2><h2>a</h2>", [("a", "a")]),
        ("a.html", "see <a href='#s'>§ 5</a> and <a href='/x'>#</a>", [("a", "see § 5 and #")]),
        ("a.html", b"<meta charset=iso-8859-1><p>\xfcber", [("a", "über")]),
        ("a.html", b'<meta http-equiv=x content="text/html; charset=latin1">\xe9', [("a", "é")]),
    ],
)
def test_files_become_titled_passages(tmp_path, name, content, expected) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    read = read_source(tmp_path)
    assert [(candidate.metadata["title"], candidate.text) for candidate in read.corpus] == expected
    assert read.skipped == {}
    assert read_source(path).corpus == read.corpus


def test_files_without_text_are_skipped_by_name(tmp_path) -> None:
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
def test_unreadable_files_and_names_are_skipped_by_name(tmp_path) -> None:
    (tmp_path / "bad.txt").symlink_to("/proc/self/mem")
    (tmp_path / os.fsdecode(b"na\xefve.txt")).write_text("x")
    (tmp_path / "good.txt").write_text("good")
    read = read_source(tmp_path)
    assert ids(read.corpus) == ["good.txt#1"]
    assert read.skipped == {
        "bad.txt": "cannot be read: Input/output error",
        "na\\udcefve.txt": "has a name that is not UTF-8",
    }


def test_folder_with_a_compressed_corpus(tmp_path) -> None:
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(b'{"_id": "a", "text": "owl"}'))
    (tmp_path / "notes.md").write_text("# Notes")
    source = read_source(tmp_path)
    assert [*source.files] == ["corpus.jsonl.gz"]
    assert [(one.id, one.text) for one in source.corpus] == [("a", "owl")]


def test_folder_with_a_corpus(tmp_path) -> None:
    corpus = [Candidate("text", "1", metadata={"title": "T", "year": 1}), Candidate("", "2")]
    write_corpus(tmp_path / "corpus.jsonl", corpus)
    (tmp_path / "queries.jsonl").write_text("{}")
    assert read_source(tmp_path).corpus == corpus
    assert read_source(tmp_path / "corpus.jsonl").corpus == corpus


@pytest.mark.parametrize("size", [49, 0, True, "100", 60.5])
def test_invalid_passage_sizes(tmp_path, size) -> None:
    with pytest.raises(InputError, match="passage_size: must be an integer of 50 or more"):
        read_source(tmp_path, passage_size=size)

"""Files become titled passages; what is not text is skipped."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from letter_embedder import ids
from sampling import examples
from secondpass import Candidate, InputError
from secondpass_evaluation import StaleIndexError, write_corpus
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.indexing import build_index
from secondpass_evaluation.search.selection import SITE_REASON, Selection

NOT_UTF8 = "is not text, or not UTF-8 (`iconv -f latin1 -t utf-8` converts Latin-1)"


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
        ("a.html", "<svg><title>Menu</title></svg><h1>Owls</h1>", [("Owls", "Owls")]),
        ("a.html", "<nav>Home<nav>x</nav>y</nav><p>text</p>", [("a", "text")]),
        ("a.html", "<nav>Home<p>never closed<main>text</main>", [("a", "text")]),
        ("a.html", "<nav><p>only this</p></nav>", [("a", "only this")]),
        ("a.html", "<div role=search><div>x</div></div>a<div>b</div>", [("a", "a\n\nb")]),
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
        "latin.txt": NOT_UTF8,
        "late.txt": NOT_UTF8,
        "wide.html": NOT_UTF8,
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


@pytest.mark.parametrize(
    "mark", ["<!--", "<a ", "<script>", "<", "</", "<!a", "<?", "&#x", "<p><b>"]
)
def test_page_of_unclosed_marks_is_read_in_time(tmp_path, mark) -> None:
    """A parser that looks for the end of each would take hours."""
    (tmp_path / "a.html").write_text("<p>text</p>" + mark * 20_000)
    assert read_source(tmp_path).corpus[0].text.startswith("text")


@pytest.mark.parametrize("mark", ["<div>", "<template>"])
def test_page_that_is_nested_too_deeply_is_skipped_by_name(tmp_path, mark) -> None:
    """The parser stops there, so the rest of the page would be lost without a word."""
    (tmp_path / "a.html").write_text("<p>text" + mark * 1_500 + "end")
    (tmp_path / "b.html").write_text("<p>text" + mark * 200_000 + "</style>" * 200_000 + "end")
    assert read_source(tmp_path).skipped.get("b.html") == "is nested too deeply"
    assert "a.html" not in read_source(tmp_path).skipped


@pytest.mark.parametrize("mark", ["<b>", "<font color=red>", "<SPAN\nclass='x'>", "<b ", "<b\t"])
def test_unclosed_formatting_loses_no_text(tmp_path, mark) -> None:
    (tmp_path / "a.html").write_text("<h1>top</h1><p>text" + mark * 100_000 + ">end")
    (candidate,) = read_source(tmp_path).corpus
    assert candidate.text.startswith("top\n\ntext")
    assert candidate.text.endswith("end")


shared_folder = settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])

marks = st.sampled_from(["#", "##", "```", "-", "=", ".", "。", "\n", "\n\n", " ", "<p>", "<h1>"])
any_words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
documents = st.lists(st.one_of(any_words, marks), max_size=30).map(" ".join) | st.lists(
    st.one_of(any_words, marks), max_size=30
).map("\n".join)


@shared_folder
@given(documents, st.integers(50, 90), st.sampled_from(["a.md", "a.txt"]))
def test_passages_lose_nothing_and_keep_to_the_size(tmp_path, text, size, name) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    corpus = read_source(tmp_path / name, passage_size=size).corpus
    assert ids(corpus) == [f"{name}#{n}" for n in range(1, len(corpus) + 1)]
    assert all(0 < len(candidate.text) <= size for candidate in corpus)
    if name == "a.txt" or "---" not in text:
        kept = "".join(candidate.text for candidate in corpus)
        assert "".join(kept.split()) == "".join(text.split())


def test_passages_end_at_paragraphs_sentences_or_words(tmp_path) -> None:
    (tmp_path / "a.txt").write_text(
        f"{'a' * 30}\n\n{'b' * 30}\n\n{'c' * 10}\n\nOne two three four five six seven. Eight nine "
        f"ten eleven twelve thirteen fourteen\n\n{'d ' * 40}\n\n{'e' * 120}"
    )
    assert [candidate.text for candidate in read_source(tmp_path, passage_size=50).corpus] == [
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


PATHS = ["a.md", "a.txt", "drafts/a.md", "guide/a.md", "guide/deep/b.md", "guide/deep/c.txt"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], PATHS),
        (["*.md"], [], ["a.md", "drafts/a.md", "guide/a.md", "guide/deep/b.md"]),
        ([], ["*.md"], ["a.txt", "guide/deep/c.txt"]),
        (["*.md"], ["drafts"], ["a.md", "guide/a.md", "guide/deep/b.md"]),
        ([], ["drafts/", "deep"], ["a.md", "a.txt", "guide/a.md"]),
        (["guide/*.md"], [], ["guide/a.md"]),
        (["guide/**/*.md"], [], ["guide/a.md", "guide/deep/b.md"]),
        (["**/deep/*"], [], ["guide/deep/b.md", "guide/deep/c.txt"]),
        (["guide/deep"], [], ["guide/deep/b.md", "guide/deep/c.txt"]),
        (["[ab].md"], ["guide/**"], ["a.md", "drafts/a.md"]),
        (["?.txt", "b.*"], [], ["a.txt", "guide/deep/b.md", "guide/deep/c.txt"]),
        (["./guide/a.md"], [], ["guide/a.md"]),
        (["nothing"], [], []),
    ],
)
def test_patterns(tmp_path, include, exclude, expected) -> None:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("text")
    chosen = Selection(tuple(include), tuple(exclude))
    assert [path for path in PATHS if chosen.has(path)] == expected
    found = read_source(tmp_path, selection=chosen)
    assert sorted(ids(found.corpus)) == [f"{path}#1" for path in expected]
    assert found.skipped == {}


@pytest.mark.parametrize("pattern", ["", "/", 3])
def test_patterns_that_are_none(pattern) -> None:
    with pytest.raises(InputError, match=r"exclude: must be patterns of paths"):
        Selection((), (pattern,))


def test_a_corpus_has_no_files_to_select(tmp_path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "b"}')
    with pytest.raises(InputError, match=r"corpus\.jsonl is a corpus"):
        read_source(tmp_path, selection=Selection(("*.md",)))


def test_an_index_keeps_its_patterns(docs, tmp_path) -> None:
    folder = tmp_path / "index"
    assert build_index(docs, folder, exclude=["deep"]).files == 2
    assert not build_index(docs, folder, exclude=["deep"]).made
    (docs / "deep" / "new.txt").write_text("is left out")
    assert open_index(folder).changes == ()
    assert build_index(docs, folder).files == 4
    assert build_index(docs, folder, include=["*.md", "a b"]).files == 1
    (docs / "owls.md").write_text("# Other")
    assert open_index(folder, stale_ok=True).changes == ("owls.md has changed",)
    with pytest.raises(StaleIndexError, match=r"--include '\*\.md' --include 'a b'"):
        open_index(folder)


PAGE = """<html><head><title>{title} - Docs 1.0 documentation</title></head><body>
<div class="related" role="navigation" aria-label="Related"><h3>Navigation</h3><ul>
<li><a href="genindex.html">index</a></li><li>{title}</li></ul></div>
<div class="document"><div class="body" role="main">
<section id="x"><h1>{title}<a class="headerlink" href="#x" title="Link">¶</a></h1>
<nav class="contents" id="toc"><p>Contents</p><ul><li><a href="#x">{title} in the list</a></li></ul>
</nav><p>The {title} hunts at night<a href="#note-1">1</a>.</p>
<div class="toctree-wrapper compound"><ul><li><div>Other pages</div></li></ul></div>
<h2>Food<a class="headerlink" href="#food">\uf0c1</a></h2><p>Mice.</p>
</section></div></div>
<div class="sphinxsidebar" role="navigation"><div class="inner"><h3>Table of Contents</h3>
<div>{title}</div></div><div role="search"><h3>Quick search</h3></div></div>
<div class="footer" role="contentinfo">Created using Sphinx.</div></body></html>"""


def test_of_a_sphinx_site_only_the_pages_are_read(tmp_path) -> None:
    site = tmp_path / "build" / "html"
    for folder in ("_sources", "_static", "api"):
        (site / folder).mkdir(parents=True)
    (site / "searchindex.js").write_text('Search.setIndex({"owl": 1})')
    (site / "objects.inv").write_bytes(b"# Sphinx inventory\x00")
    (site / "genindex.html").write_text("<p>owl, in module owls</p>")
    (site / "search.html").write_text("<p>Please activate JavaScript</p>")
    (site / "_sources" / "owls.rst.txt").write_text("Owls\n====\n")
    (site / "_static" / "doctools.js").write_text("const owl = 1;")
    (site / "owls.html").write_text(PAGE.format(title="Owl"))
    (site / "api" / "search.html").write_text(PAGE.format(title="Search"))
    found = read_source(tmp_path)
    assert [candidate.text for candidate in found.corpus] == [
        "Owl\n\nThe Owl hunts at night1.",
        "Food\n\nMice.",
        "Search\n\nThe Search hunts at night1.",
        "Food\n\nMice.",
    ]
    left_out = ["_sources/", "_static/", "genindex.html", "objects.inv", "search.html"]
    left_out.append("searchindex.js")
    assert found.skipped == {f"build/html/{name}": SITE_REASON for name in left_out}


SITES = {
    "mdBook": {
        "index.html": PAGE.format(title="Owl"),
        "owls/food.html": PAGE.format(title="Food"),
        "print.html": PAGE.format(title="All"),
        "toc.html": "<ol><li>Owl</li></ol>",
        "404.html": "<h1>Document not found</h1>",
        "book-5f2a.js": "const owl = 1;",
        "searchindex-1b.js": "window.search = {}",
        "css/general.css": "owl {}",
        "owls/owl.svg": "<svg><title>Owl</title></svg>",
        "fonts/OPEN-SANS-LICENSE.txt": "Apache License",
    },
    "MkDocs": {
        "index.html": PAGE.format(title="Owl"),
        "food/index.html": PAGE.format(title="Food"),
        "food/index.md": "# Food\n\nThe Food hunts",  # copies for language models
        "index.html.md": "# Owl\n\nThe Owl hunts",
        "404.html": "<h1>Not found</h1>",
        "search/search_index.json": '{"docs": [{"text": "The owl hunts"}]}',
        "assets/javascripts/bundle.min.js": "const owl = 1;",
        "sitemap.xml": "<urlset></urlset>",
        "objects.inv": "# inventory",
        "llms-full.txt": "# Owl",
        "robots.txt": "User-agent: *",
    },
    "docsify": {
        "index.html": PAGE.format(title="Owl"),
        "food.md": "# Food\n\nThe Food hunts",
        "search.js": "const owl = 1;",
    },
}


@pytest.mark.parametrize("kind", SITES)
def test_of_a_website_only_the_pages_are_read(tmp_path, kind) -> None:
    for name, text in SITES[kind].items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "notes.json").write_text("[1]")  # beside a site
    found = read_source(tmp_path)
    pages = {candidate.metadata["path"] for candidate in found.corpus}
    read = {"mdBook": "owls/food.html", "MkDocs": "food/index.html", "docsify": "food.md"}[kind]
    assert pages == {"site/index.html", f"site/{read}", "notes.json"}
    assert set(found.skipped.values()) == {SITE_REASON}


def test_copies_in_markdown_are_read_where_the_pages_are_excluded(tmp_path) -> None:
    for name, text in SITES["MkDocs"].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = read_source(tmp_path, selection=Selection(exclude=("*.html",)))
    pages = {candidate.metadata["path"] for candidate in found.corpus}
    assert pages == {"food/index.md", "index.html.md"}

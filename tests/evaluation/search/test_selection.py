"""Which files of a folder are read."""

import pytest

from letter_embedder import ids
from secondpass import InputError
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.index import open_index
from secondpass_evaluation.search.indexing import build_index
from secondpass_evaluation.search.selection import SPHINX_REASON, Selection

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
    command = open_index(folder, stale_ok=True) and None
    with pytest.raises(Exception, match=r"--include '\*\.md' --include 'a b'") as stale:
        open_index(folder)
    assert command is None
    assert "owls.md has changed" in str(stale.value)


def test_a_string_is_one_pattern(docs, tmp_path) -> None:
    assert (
        build_index(docs, tmp_path / "a", include="*.md").files
        == build_index(docs, tmp_path / "b", include=["*.md"]).files
    )
    assert build_index(docs, tmp_path / "a", exclude="deep").files == 2


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
    texts = [candidate.text for candidate in found.corpus]
    assert texts == [
        "Owl\n\nThe Owl hunts at night1.",
        "Food\n\nMice.",
        "Search\n\nThe Search hunts at night1.",
        "Food\n\nMice.",
    ]
    assert found.skipped == dict.fromkeys(
        [
            f"build/html/{name}"
            for name in (
                *("_sources/", "_static/", "genindex.html", "objects.inv", "search.html"),
                "searchindex.js",
            )
        ],
        SPHINX_REASON,
    )

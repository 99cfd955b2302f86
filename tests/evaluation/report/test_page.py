import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import EDGES, INJECTIONS, Parsed, check, make, with_reranker, without
from sampling import examples
from secondpass_evaluation import Cost, Stability
from secondpass_evaluation.report.markdown import report as markdown
from secondpass_evaluation.report.page import fragment
from secondpass_evaluation.report.page import page as html

AT_EDGES = with_reranker(
    make(count=1_001),
    cost=Cost(dict.fromkeys(make(count=1_001).queries, 0.0), cost=0.0),
    moves=((1, 1),),
    stability=Stability(0, 1.0, 1.0, "nDCG@10", ()),
)
"""A comparison in which every plot is at an edge of its own."""


@pytest.fixture(scope="module")
def plotted() -> str:
    """The page of the usual comparison, with its plots."""
    return html(make())


def test_well_formed_and_self_contained_whatever_the_texts():
    hostile = " ".join(INJECTIONS.values())
    page = html(make(text=hostile, rerankers=(INJECTIONS["script"], "other")))
    parsed = check(page)
    assert page.startswith("<!DOCTYPE html>")
    assert parsed.tags.count("h1") == 1
    labels = [
        value for tag, name, value in parsed.attributes if (tag, name) == ("svg", "aria-label")
    ]
    assert len(labels) == parsed.tags.count("svg") == 4 + 2 * 3
    assert all(labels)
    scopes = [value for tag, name, value in parsed.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == parsed.tags.count("th")
    assert "http-equiv" in page


@pytest.mark.parametrize("render", [html, fragment])
def test_same_cells_as_markdown(render):
    comparison = make(rerankers=("rerank", "other"))
    rows = [line for line in markdown(comparison).splitlines() if line.startswith("| ")]
    cells = {cell.strip(" *") for row in rows for cell in row.strip("|").split("|")}
    cells -= {"---", "---:"}
    assert len(cells) > 40
    with without("matplotlib"):
        assert cells <= set(Parsed(render(comparison)).cells)


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_edges(comparison):
    with without("matplotlib"):
        check(html(comparison))
    Parsed(fragment(comparison))


def test_all_plots_at_their_edges():
    page = check(html(AT_EDGES))
    assert page.tags.count("svg") == 5  # neither shuffles nor moves have a plot


@pytest.mark.long
@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_edges_with_plots(comparison):
    check(html(comparison))


def test_documents_with_relevance_and_moves():
    with without("matplotlib"):
        text = " ".join(" ".join(Parsed(html(make())).texts).split())
    for part in ("relevant: 2", "not relevant", "not judged", "came from 4", "was not in the list"):
        assert part in text
    assert "nDCG@10 0.250 → 0.750 (+0.500)" in text
    assert "nDCG@10 0.750 → 0.250 (-0.500)" in text


def test_best_is_marked():
    alike = with_reranker(make(), evaluation=make().results[0].evaluation)
    with without("matplotlib"):
        assert "<strong>" in html(make())
        assert "<strong>" not in html(alike)


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
def test_text_stays_text(text):
    plain, hostile = (make(text=each, rerankers=(each,)) for each in ("plain", text))
    with without("matplotlib"):
        assert check(html(hostile)).tags == Parsed(html(plain)).tags
        assert Parsed(fragment(hostile)).tags == Parsed(fragment(plain)).tags
        if text.isprintable():
            assert f"{text} passage" in Parsed(html(hostile)).texts


@examples(12)
@given(st.text(st.characters(), min_size=1))
def test_any_text_keeps_structure(text):
    hostile = make(count=2, text=text, rerankers=(text,), suite=text, notes=(text,))
    with without("matplotlib"):
        plain = html(make(count=2, notes=("plain",)))
        assert check(html(hostile)).tags == Parsed(plain).tags


def test_reproducible_in_another_process(plotted, tmp_path):
    path = tmp_path / "comparison.pickle"
    path.write_bytes(pickle.dumps(make()))
    code = (
        "import pickle, sys; comparison = pickle.load(open(sys.argv[1], 'rb')); "
        "sys.stdout.buffer.write(comparison.to_html().encode())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONHASHSEED": "5", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1"},
        capture_output=True,
        check=True,
        timeout=300,
    )
    assert other.stdout.decode() == plotted


def test_without_matplotlib(plotted):
    with without("matplotlib"):
        page = html(make())
    parsed = check(page)
    assert "svg" not in parsed.tags
    assert "secondpass[report]" in page
    assert check(plotted).cells == parsed.cells
    assert "secondpass[report]" not in plotted


def test_fragment_styles_only_itself():
    parsed = Parsed(fragment(make()))
    assert not {"style", "svg", "script"} & set(parsed.tags)
    assert not parsed.all("id")
    assert parsed.all("class") == ["secondpass-comparison"]


def test_navigation_lists_all_sections():
    with without("matplotlib"):
        parsed = check(html(make(rerankers=("rerank", "other"))))
    headings = [value for tag, name, value in parsed.attributes if (tag, name) == ("h2", "id")]
    assert [link[1:] for link in parsed.all("href")] == headings
    assert headings == [
        *("overview", "quality", "differences", "cost", "issues", "order", "not-run"),
        *("system-2", "system-3", "queries", "settings"),
    ]


def test_when_with_what_and_where():
    settings = {
        "date": "2026-01-02T03:04:05Z",
        "versions": {"secondpass": "0.1.0", "python": "3.11.2"},
        "machine": {"processor": "<Some> processor", "cores": 2},
        "command": "secondpass eval suite",
    }
    with without("matplotlib"):
        parsed = check(html(make(settings=settings)))
    line = " \N{MIDDLE DOT} ".join(
        (settings["date"], "secondpass 0.1.0", "Python 3.11.2", "<Some> processor", "2 cores",
         "secondpass eval suite")
    )  # fmt: skip
    assert line in parsed.texts
    assert {"versions: python", "machine: processor", "command"} <= set(parsed.cells)


def test_all_queries_can_be_read_without_the_script():
    comparison = make(count=40)
    with without("matplotlib"):
        cells = check(html(comparison)).cells
    assert set(comparison.queries.values()) <= set(cells)


def test_configurations_are_shown():
    with without("matplotlib"):
        page = html(replace(make(), settings={}))
    assert "Configuration of <bdi>lexical+rerank</bdi>" in page
    assert re.search(r"&#34;type&#34;: &#34;rerank&#34;", page)

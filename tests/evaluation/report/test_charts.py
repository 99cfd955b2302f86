import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from reports import INJECTIONS, Parsed, evaluation, make
from secondpass_evaluation.report import charts, svg


def texts(drawn: str) -> list[str]:
    return [text.strip() for text in Parsed(drawn).texts if text.strip()]


def of_queries(comparison, prefix):
    return charts.per_query(comparison, comparison.results[1], prefix)


SYSTEMS = (charts.latency, charts.differences)
ALL = (*SYSTEMS, of_queries)


def test_marks_are_numbered_and_a_legend_has_their_names():
    found = texts(charts.latency(make(rerankers=("a", "b")), "p-"))
    assert {"1", "2", "3", "1  lexical", "2  +a", "3  +b"} <= {*found}


def test_long_names_stay_distinct():
    comparison = make(rerankers=[f"{'a-long-name-' * 4}{index}" for index in range(3)])
    for plot in SYSTEMS:
        names = {text for text in texts(plot(comparison, "p-")) if re.match(r"\W|\d  ", text)}
        assert len({name for name in names if "+a-long" in name}) == 3


def test_text_stays_text():
    apart = ("script", "comment and math", "template")
    others = " ".join(text for key, text in INJECTIONS.items() if key not in apart)
    names = [*(INJECTIONS[key] for key in apart), others]
    plain, hostile = (
        make(text=text, rerankers=rerankers)
        for text, rerankers in (
            ("plain", ["plain"] * len(names)),
            (INJECTIONS["attribute"], names),
        )
    )
    for plot in ALL:
        drawn = plot(hostile, "p-")
        for name in ("+<script", "+]]><!--", "+{{ 7") if plot in SYSTEMS else ():
            assert any(name in text for text in texts(drawn))
        tags, plain_tags = Parsed(drawn).tags, Parsed(plot(plain, "p-")).tags
        assert set(tags) == set(plain_tags)
        assert tags.count("text") == plain_tags.count("text")


def test_nothing_below_zero():
    zero = evaluation(dict.fromkeys(make().queries, 0.0))
    comparison = make(gain=0.0, low=0.0, high=0.0)
    results = [replace(one, evaluation=one.evaluation and zero) for one in comparison.results]
    drawn = charts.latency(replace(comparison, results=tuple(results)), "p-")
    assert "\N{MINUS SIGN}" not in "".join(texts(drawn))


def test_only_first_stages_no_plot():
    first = make().results[:1]
    for plot in charts.PLOTS:
        assert plot.draw(make(results=first), "p-") is None


def test_matplotlib_settings_are_untouched():
    matplotlib = pytest.importorskip("matplotlib")
    usual = charts.latency(make(), "p-")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert charts.latency(make(), "p-") == usual
        assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def drawn() -> ElementTree.Element:
    pytest.importorskip("matplotlib")
    with svg.figure(2, 1) as (drawing, axes):
        axes.plot([1, 2], [1, 3], "o", color=svg.GAIN)
        axes.axhline(1, color=svg.MUTED)
        axes.set_xlabel("<b> $x$")
        return ElementTree.fromstring(svg.inline(drawing, "p-", "a <label>"))


def test_the_element_has_a_label_and_no_size(drawn):
    assert drawn.tag == "svg"
    assert drawn.keys() == ["class", "viewBox", "role", "aria-label"]
    assert drawn.get("aria-label") == "a <label>"


def test_ids_have_the_prefix_and_references_follow_them(drawn):
    ids = [part.get("id") for part in drawn.iter() if part.get("id")]
    assert ids
    assert all(one.startswith("p-") for one in ids)
    links = [part.get("href") for part in drawn.iter() if part.get("href")]
    assert links
    assert {link.removeprefix("#") for link in links} <= {*ids}
    clips = {part.get("clip-path") for part in drawn.iter() if part.get("clip-path")}
    assert {clip[5:-1] for clip in clips} <= {*ids}


def test_colours_are_those_of_the_page(drawn):
    text = ElementTree.tostring(drawn, encoding="unicode")
    assert "var(--gain)" in text
    assert "var(--muted)" in text
    assert "#0101" not in text


def test_nothing_applies_to_the_rest_of_the_page(drawn):
    assert not {"style", "metadata"} & {part.tag for part in drawn.iter()}


def test_labels_stay_text(drawn):
    assert any((part.text or "").strip() == "<b> $x$" for part in drawn.iter("text"))


def test_queries_are_counted_and_without_a_change_not_drawn():
    assert "queries: 4 better, 2 worse, 0 equal" in texts(of_queries(make(), "p-"))
    assert of_queries(make(gain=0.0), "p-") is None

import re
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import pytest

from reports import INJECTIONS, Parsed, evaluation, make, with_reranker
from secondpass_evaluation import Cost
from secondpass_evaluation.report import charts, svg
from secondpass_evaluation.report import charts as query_charts

ALL = (charts.latency, charts.differences, charts.sensitivity)


def texts(svg: str) -> list[str]:
    return [text.strip() for text in Parsed(svg).texts if text.strip()]


def numbers(svg: str) -> dict[str, tuple[float, float]]:
    """The numbers beside the marks, with their places in points."""
    pattern = r'<g id="p-number-\d+">\s*<text[^>]* x="([-\d.]+)" y="([-\d.]+)"[^>]*>(\d+)</text>'
    return {number: (float(x), float(y)) for x, y, number in re.findall(pattern, svg)}


def placed(*places: tuple[float, float]):
    """A comparison of rerankers with these qualities and seconds."""
    comparison = make(rerankers=[f"r{index}" for index in range(len(places))])
    first, *others = comparison.results
    moved = [
        replace(one, evaluation=evaluation({"q0": y}), cost=Cost({"q0": x}), differences={})
        for one, (y, x) in zip(others, places, strict=False)
    ]
    return replace(comparison, results=(first, *moved))


PLACES = {
    "close": [(0.4 + 0.001 * index, 0.1 + 0.0001 * index) for index in range(12)],
    "a column": [(0.4 + 0.002 * index, 0.1) for index in range(11)],
    "the same": [(0.9, 0.1)] * 12,
}


@cache
def latency_at(name: str) -> str:
    return charts.latency(placed(*PLACES[name]), "p-")


@pytest.mark.parametrize(
    "name", ["close", "the same", pytest.param("a column", id="a column", marks=pytest.mark.long)]
)
def test_numbers_do_not_overlap(name):
    marks = numbers(latency_at(name))
    assert list(marks) == [str(number) for number in range(1, len(PLACES[name]) + 2)]
    wide = 5 * len(str(len(marks)))
    for number, (x, y) in marks.items():
        for other, (left, top) in marks.items():
            assert number == other or abs(x - left) >= wide or abs(y - top) >= 8


def test_legend_lists_every_system():
    legend = [text for text in texts(latency_at("close")) if re.match(r"\d+  ", text)]
    assert legend == ["1  lexical", *(f"{index + 2}  +r{index}" for index in range(12))]


def test_long_names_stay_distinct():
    comparison = make(rerankers=[f"{'a-long-name-' * 4}{index}" for index in range(3)])
    for plot in ALL:
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
        svg = plot(hostile, "p-")
        for name in ("+<script", "+]]><!--", "+{{ 7"):
            assert any(name in text for text in texts(svg))
        tags, plain_tags = Parsed(svg).tags, Parsed(plot(plain, "p-")).tags
        assert set(tags) == set(plain_tags)
        assert tags.count("text") == plain_tags.count("text")


def test_nothing_below_zero():
    zero = evaluation(dict.fromkeys(make().queries, 0.0))
    comparison = make(gain=0.0, low=0.0, high=0.0)
    results = [replace(one, evaluation=one.evaluation and zero) for one in comparison.results]
    svg = charts.latency(replace(comparison, results=tuple(results)), "p-")
    assert "\N{MINUS SIGN}" not in "".join(texts(svg))


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


# ---------------------------------------------------------------------- figures as svg within a p


@pytest.fixture(scope="module")
def drawn() -> ElementTree.Element:
    pytest.importorskip("matplotlib")
    with svg.figure(2, 1) as (drawing, axes):
        (mark,) = axes.plot([1, 2], [1, 3], "o", color=svg.GAIN)
        mark.set_gid("mark")
        axes.axhline(1, color=svg.MUTED)
        axes.set_xlabel("<b> $x$")
        return ElementTree.fromstring(
            svg.inline(drawing, "p-", "a <label>", {"mark": "a \x00 title"})
        )


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


def test_titles_and_text_stay_text(drawn):
    (mark,) = [part for part in drawn.iter() if part.get("id") == "p-mark"]
    assert mark[0].tag == "title"
    assert "\x00" not in mark[0].text
    assert any((part.text or "").strip() == "<b> $x$" for part in drawn.iter("text"))


# ---------------------------------------------------------------------- query charts


def drawn_for_queries(comparison, plot):
    return plot(comparison, comparison.results[1], "p-")


def test_bars_name_their_queries():
    svg = drawn_for_queries(make(count=5, text="wing & tail"), query_charts.per_query)
    assert "<title>wing &amp; tail 1 (q1): +0.100</title>" in svg
    assert "<title>wing &amp; tail 0 (q0): -0.050</title>" in svg


def test_text_of_queries_stays_text():
    plain, hostile = (
        drawn_for_queries(make(text=text), query_charts.per_query)
        for text in ("x", INJECTIONS["script"])
    )
    assert Parsed(hostile).tags == Parsed(plain).tags


def test_shares_within_top_ranks():
    svg = drawn_for_queries(make(), query_charts.within)
    assert "top 1: 20.0% before, 40.0% after" in svg
    assert "top 100: 80.0% before, 80.0% after" in svg
    assert "% of 5 relevant documents" in svg


def test_moves_count_ups_and_downs():
    assert "in steps: 3 up, 1 down" in drawn_for_queries(make(), query_charts.moves)


def test_nothing_to_draw():
    assert drawn_for_queries(make(gain=0.0), query_charts.per_query) is None
    empty = with_reranker(make(), moves=())
    assert drawn_for_queries(empty, query_charts.within) is None
    assert drawn_for_queries(with_reranker(make(), moves=((1, 1),)), query_charts.moves) is None

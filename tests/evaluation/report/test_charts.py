import re
from dataclasses import replace
from functools import cache

import pytest

from reports import INJECTIONS, Parsed, evaluation, make
from secondpass_evaluation import Cost
from secondpass_evaluation.report import charts

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
    "spread": [(0.1 * index, 0.01 * index) for index in range(1, 9)],
    "close": [(0.4 + 0.001 * index, 0.1 + 0.0001 * index) for index in range(12)],
    "a row": [(0.4, 0.001 * 1.1**index) for index in range(11)],
    "a column": [(0.4 + 0.002 * index, 0.1) for index in range(11)],
    "the same": [(0.9, 0.1)] * 12,
}


@cache
def latency_at(name: str) -> str:
    return charts.latency(placed(*PLACES[name]), "p-")


@pytest.mark.parametrize("name", PLACES)
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

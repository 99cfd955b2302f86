"""Figures as SVG within a page."""

import sys
from xml.etree import ElementTree

import pytest

from reports import without
from secondpass_evaluation.report import svg


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


@pytest.mark.parametrize(
    ("value", "tone"), [(0.1, svg.GAIN), (-0.1, svg.LOSS), (0.0, svg.MUTED), (1e-12, svg.MUTED)]
)
def test_tones(value, tone):
    assert svg.tone(value) == tone


def test_available_with_matplotlib_alone():
    with without("matplotlib"):
        assert not svg.available()
    assert svg.available() == ("matplotlib" in sys.modules)

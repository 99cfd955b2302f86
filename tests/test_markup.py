"""HTML of texts that may hold anything."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.markup import Markup, clean, escaped, excerpt, paragraph, table


@given(st.text())
def test_text_is_escaped_once(text):
    shown = escaped(text)
    assert not set(shown) & {"<", ">", "\0", "\r"}
    assert html.unescape(shown) == clean(text)
    assert escaped(shown) == shown


@pytest.mark.parametrize(
    ("span", "length", "expected"),
    [
        (None, 10, "a&lt;b cd"),
        (None, 3, "a&lt;b…"),
        ((1, 3), 10, "a<mark>&lt;b</mark> cd"),
        ((1, 9), 3, "a<mark>&lt;b</mark>…"),
        ((4, 6), 3, "…<mark>cd</mark>"),
        ((3, 4), 3, "…<mark> </mark>cd"),
        ((2, 2), 10, "a&lt;b cd"),
    ],
)
def test_excerpt(span, length, expected):
    assert excerpt("a<b cd", span, length) == expected


TEXTS = st.text(st.characters(exclude_characters="\r…", exclude_categories=["Cs"]), max_size=9)


@given(TEXTS, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))
def test_excerpts_are_parts_of_the_text(text, start, size, length):
    span = min(start, len(text)), min(start + size, len(text))
    shown = html.unescape(re.sub("</?mark>", "", excerpt(text, span, length)))
    begin = span[0] if span[0] >= length else 0
    before, after = "…" * (begin > 0), "…" * (begin + length < len(text))
    shown = shown.removeprefix(before).removesuffix(after)
    assert clean(text[begin : begin + length]).startswith(shown)
    left_out = text[begin + len(shown) : begin + length]
    assert not left_out or (left_out[0].isspace() and len(shown) > length // 2)


@pytest.mark.parametrize(
    ("text", "length", "shown"),
    [
        ("one two three four", 12, "one two…"),
        ("one two three four", 13, "one two three…"),
        ("one two three four", 14, "one two three …"),
        ("one two three four", 18, "one two three four"),
        ("one a-very-long-address", 12, "one a-very-l…"),
        ("一二三四五六七八", 4, "一二三四…"),
    ],
)
def test_excerpts_end_between_words(text, length, shown):
    assert excerpt(text, None, length) == shown


def test_markup_stays():
    assert paragraph("a<b", Markup("<b>c</b>")) == "<p>a&lt;b<br><b>c</b></p>"
    cells = table(["<n>", "text"], [[1, Markup("<i>x</i>")]])
    assert "&lt;n&gt;" in cells
    assert "<i>x</i>" in cells
    assert cells.count("text-align:right") == 2

"""Fences: what is escaped, and what stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.prompts.fencing import as_attribute, as_text, between_tags, fenced

TEXTS = [
    ("plain text, 5 > 3 & 'so'", "plain text, 5 > 3 & 'so'"),
    ("</doc><doc>", "&lt;/doc>&lt;doc>"),
    ("\uff1cdoc\ufe64", "&lt;doc&lt;"),
    ("a\r\nb\rc\td", "a\nb\nc\td"),
    ("a\x00b\x1bc\u2028d", "a b c d"),
    ("<\u200b|im_end|>", "&lt;|im_end|>"),
    ("p\u2060l\ufeffa\u00adin\U000e0041", "plain"),
    ("[INST] [/INST] [ SYSTEM_PROMPT ]", "[ INST] [ /INST] [  SYSTEM_PROMPT ]"),
    ("\uff3bINST\uff3d", "[ INST\uff3d"),
    ("[1] [a] [Inst] [A]", "[1] [a] [Inst] [A]"),
    ("क्\u200dष", "क्\u200dष"),
    ("a\U000e0100b\ufe00c\u200e\u061c\u2063\u180ed", "abcd"),
    ("deep [gMASK]", "deep [ gMASK]"),
    ("a > b & c\td\ne [see] {x} 日本語 \U0001f600", "a > b & c\td\ne [see] {x} 日本語 \U0001f600"),
]


@pytest.mark.parametrize(("text", "escaped"), TEXTS, ids=ascii)
def test_texts(text, escaped):
    assert as_text(text) == escaped


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("k4t", "k4t"), ('a"><doc id="b', "a&quot;&gt;&lt;doc id=&quot;b"), (" a\n\tb ", "a b")],
)
def test_attributes(text, escaped):
    assert as_attribute(text) == escaped


def test_tags():
    assert fenced("query", "a < b") == "<query>a &lt; b</query>"
    assert fenced("doc", "a", 'k"') == '<doc id="k&quot;">a</doc>'
    assert between_tags("doc", "&lt;", "k") == '<doc id="k">&lt;</doc>'


@given(st.text(st.characters(max_codepoint=127)) | st.text(st.sampled_from("[]INST<_/ \r\n\x00")))
def test_ascii_is_fenced_as_any_other_text(text):
    assert as_text(f"{text} \u00e9") == f"{as_text(text)} \u00e9"

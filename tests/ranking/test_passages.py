"""Windows of long texts: exact, complete, short enough, cut where a reader would cut."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from secondpass import ConfigurationError
from secondpass.questions import RenderedText, affixes
from secondpass.ranking.windows import Passages, sentences, split

PIECES = st.sampled_from(
    [
        *"aé漢ก\u0e33🏽\u0301\u200d\ud800\udc00🇫.!?。」\"'\n\t \u3000\x85\0",
        *["word", "Sentence. ", "句子。", "  \n\n ", "\r\n", "👨\u200d👩", "." * 9],
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=60).map("".join)
SIZES = st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(TEXTS, SIZES)
@example("a" * 100, (10, 9))
@example(" " * 100, (10, 3))
@example("aa\na", (2, 1))
def test_windows_cover_the_text_in_order_and_are_no_longer_than_their_size(text, sizes):
    size, overlap = sizes
    spans = list(split(text, size, overlap))
    assert spans[0][0] == 0 or not text[: spans[0][0]].strip()
    assert all(0 <= start <= stop <= len(text) and stop - start <= size for start, stop in spans)
    assert len(spans) <= 1 + 2 * len(text) / (size - overlap)
    for (a, b), (c, d) in pairwise(spans):
        assert (a, b) < (c, d)
        assert b < d
        assert b - c <= overlap
        assert c <= b or not text[b:c].strip()
    if text.strip():
        assert not text[spans[-1][1] :].strip()
    if len(text) <= size:
        assert spans == [(0, len(text))]


@pytest.mark.parametrize(
    ("text", "size", "overlap", "windows"),
    [
        ("One two. Three four. Five.", 20, 0, ["One two. Three four.", "Five."]),
        ("He said “Go.” Then he left.", 15, 0, ["He said “Go.”", "Then he left."]),
        ("A 3.14159 is pi.", 10, 0, ["A 3.14159", "is pi."]),
        ("aaaa bbbb cccc dddd", 10, 0, ["aaaa bbbb", "cccc dddd"]),
        ("aaaa bbbb cccc dddd", 10, 5, ["aaaa bbbb", "bbbb cccc", "cccc dddd"]),
        ("Ab. Cd. Ef. Gh. Ij.", 11, 4, ["Ab. Cd. Ef.", "Ef. Gh. Ij."]),
        ("第一句。第二句。第三句。", 9, 0, ["第一句。第二句。", "第三句。"]),
        ("abcdefghij", 4, 0, ["abcd", "efgh", "ij"]),
        ("abcdefghij", 4, 1, ["abcd", "defg", "ghij"]),
        ("xxxe\u0301yyy", 4, 0, ["xxx", "e\u0301yy", "y"]),
        ("xxx\U0001f468\u200d\U0001f469yyy", 5, 0, ["xxx", "\U0001f468\u200d\U0001f469yy", "y"]),
        ("a   \n\n   b", 4, 0, ["a", "b"]),
        ("Line one\nline two.\nGo. Four.", 24, 3, ["Line one\nline two.", "Go. Four."]),
        ("One two three f\n\nfour. Five six", 23, 3, ["One two three f", "four. Five six"]),
        ("One two.\nThree four. Five", 22, 6, ["One two.\nThree four.", "four. Five"]),
        ("One two three f\r\n\r\nfour. Five six", 25, 3, ["One two three f", "four. Five six"]),
        ("One two\r\ntwo.\r\nThree. Four five", 22, 0, ["One two\r\ntwo.", "Three. Four five"]),
        ("aa\na", 2, 1, ["aa", "a"]),
        ("ខខខ\u17d4ខខខ", 5, 0, ["ខខខ\u17d4", "ខខខ"]),
        ("第一、第二第三", 5, 0, ["第一、", "第二第三"]),
        ("第一、第二第三第四", 6, 4, ["第一、第二第", "第二第三第四"]),
        ("गगगक्षत्रि", 5, 0, ["गगग", "क्ष", "त्रि"]),
        ("xxx\U0001f3f4\U000e0067\U000e007fy", 5, 0, ["xxx", "\U0001f3f4\U000e0067\U000e007fy"]),
    ],
)
def test_where_windows_end_and_begin(text, size, overlap, windows):
    assert [text[start:stop] for start, stop in split(text, size, overlap)] == windows


def test_sentences():
    text = "One. Two!\n第一句。Three"
    assert [text[a:b] for a, b in sentences(text)] == ["One.", "Two!", "第一句。", "Three"]


@pytest.mark.parametrize("size", [1, 20, 40, 100])
def test_prefix_and_suffix_are_in_every_window(size):
    text = RenderedText(f"prefix {'word ' * 40}suffix", ((0, 7), (207, 213)))
    passages = Passages(size=size)
    windows = passages.windows(text, (7, 207))
    shown = [windows.text(text, span) for span in windows.spans]
    assert len(shown) > 1
    for window in shown:
        assert affixes(window) == (7, 6)
        assert len(window) <= max(size, size // 2 + 13, 14)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size: must be greater than or equal to 1, not 0"),
        ({"size": 10, "overlap": 10}, r"overlap: must be smaller than the size \(10\)"),
        ({"overlap": -1}, "overlap: must be greater than or equal to 0, not -1"),
        ({"combine": "best"}, "combine: "),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError, match=message) as error:
        Passages(**settings)
    assert len(error.value.problems) == 1

"""Reading the best span of each document, by every unit of offsets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass.apis.descriptions import RerankSpans
from secondpass.apis.wire import SpanScores, best_spans, dump, load
from span_texts import TEXTS, span

SIZES = {
    "code_points": lambda character: 1,
    "utf16": lambda character: len(character.encode("utf-16-le")) // 2,
    "bytes": lambda character: len(character.encode()),
}


@st.composite
def cuts(draw):
    """A text, an index and a later one."""
    text = draw(TEXTS)
    start = draw(st.integers(0, len(text) - 1))
    return text, start, draw(st.integers(start + 1, len(text)))


def read(text, listed, unit="code_points", **places):
    spans = RerankSpans(unit=unit, **places)
    (found,), wrong = best_spans([(0, {"spans": listed})], set(), spans, [text], (0.0, 1.0))
    return "wrong" if wrong else found


@pytest.mark.parametrize("unit", SIZES)
@examples(20)
@given(cut=cuts(), with_text=st.booleans())
def test_a_span_cuts_out_the_text_that_the_server_means(unit, cut, with_text):
    text, start, stop = cut
    size = SIZES[unit]
    offset = sum(map(size, text[:start]))
    sent = span(offset, offset + sum(map(size, text[start:stop])))
    if with_text:
        sent["text"] = text[start:stop]
    assert read(text, [sent], unit) == (start, stop)
    scored = SpanScores((0.5,), (), spans=((start, stop),))
    stored = json.loads(json.dumps(dump(scored, with_spans=True)))
    assert load(stored, [text], with_spans=True) == scored


@pytest.mark.parametrize("unit", SIZES)
@given(text=TEXTS, start=st.integers(-3, 90), end=st.integers(-3, 90))
def test_no_offset_cuts_a_character(unit, text, start, end):
    """Offsets in a character, outside the text or out of order are wrong."""
    size = SIZES[unit]
    places = [sum(map(size, text[:index])) for index in range(len(text) + 1)]
    found = read(text, [span(start, end)], unit)
    if start in places and end in places and start < end:
        assert found == (places.index(start), places.index(end))
    else:
        assert found == "wrong"


WRONG = {
    "no list": {"0": span(0, 1)},
    "a string": "0-1",
    "no mapping": [[0, 1]],
    "nothing in it": [{}],
    "far beyond the text": [span(10**30, 10**31)],
    "floats": [span(0.0, 1.0)],
    "strings": [span("0", "1")],
    "booleans": [span(False, True)],
    "no end": [{"start": 0, "score": 0.5}],
    "no score": [{"start": 0, "end": 1}],
    "score of a boolean": [span(0, 1, True)],
    "score not finite": [span(0, 1, float("nan"))],
    "score out of range": [span(0, 1, 1.5)],
    "another text": [span(0, 1, text="z")],
    "a text that is none": [span(0, 1, text=5)],
    "the text of another unit": [span(1, 2, text="🦉")],
    "two scores": [span(0, 1, 0.4), span(0, 1, 0.6)],
    "a wrong one behind a right one": [span(0, 1, 0.9), span(0, 99, 0.1)],
}


@pytest.mark.parametrize("listed", WRONG.values(), ids=WRONG)
def test_wrong_spans(listed):
    assert read("🦉 c", listed) == "wrong"


def test_without_scores_the_first_is_the_best():
    assert read("abc", [{"start": 1, "end": 2}, {"start": 0, "end": 1}], score=None) == (1, 2)
    assert read("abc", [span(1, 2, 0.5), span(0, 1, 0.5)]) == (1, 2)
    assert read("abc", [span(0, 1, 0.9), span(1, 2, 0.5)]) == (0, 1)

"""Estimates of tokens, and cutting texts to a size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.questions import RenderedText, cut_evenly


def test_prefix_and_suffix_stay():
    text = RenderedText(f"P: {'a' * 400} :S", ((0, 3), (403, 406)))
    assert cut_evenly([text, "short"], 105) == [f"P: {'a' * 94} :S", "short"]
    endless = RenderedText("x" * 400, ((0, 400),))
    assert cut_evenly([endless], 10) is None


EVENLY = {
    "longest first": ([100, 300, 200], 400, [100, 150, 150]),
    "both equal": ([300, 300], 400, [200, 200]),
    "never below 80": ([300, 90, 20], 30, [80, 80, 20]),
    "one over 80": ([81, 80], 0, [80, 80]),
    "fits": ([100, 200], 300, None),
    "one too many": ([100, 200], 299, [100, 199]),
    "short already": ([80, 80], 10, None),
    "no texts": ([], 10, None),
}


@pytest.mark.parametrize(("lengths", "characters", "expected"), EVENLY.values(), ids=EVENLY)
def test_even_lengths(lengths, characters, expected):
    cut = cut_evenly(["x" * length for length in lengths], characters)
    assert cut == (expected and ["x" * length for length in expected])


@given(st.lists(st.integers(0, 500).map("x".__mul__), max_size=8), st.integers(0, 3000))
def test_cut_evenly(texts, characters):
    cut = cut_evenly(texts, characters)
    if cut is None:
        assert sum(map(len, texts)) <= characters or all(len(text) <= 80 for text in texts)
        return
    assert cut != texts
    longest = max(map(len, cut))
    for one, text in zip(cut, texts, strict=True):
        assert len(one) == min(len(text), longest)
    assert sum(map(len, cut)) <= characters or longest == 80

"""Texts of documents as reports show them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass_evaluation.texts import ELLIPSIS, shortened, with_plain_headings


@given(st.text(), st.integers(4, 20))
def test_cut_texts_fit(value, length):
    cut = shortened(value, length)
    assert len(cut) <= length
    assert len(cut.splitlines()) <= 1


@pytest.mark.parametrize(
    ("value", "length", "expected"),
    [
        ("a  b\nc", 5, "a b c"),
        ("one two three", 8, f"one two{ELLIPSIS}"),
        ("one two three", 10, f"one two{ELLIPSIS}"),
        ("one two three", 12, f"one two{ELLIPSIS}"),
        ("one two three", 13, "one two three"),
        ("see https://example.org/a", 12, f"see https:/{ELLIPSIS}"),
    ],
)
def test_texts_are_cut_after_a_word(value, length, expected):
    assert shortened(value, length) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Prices\n# Prices\n\nA ride costs 1 euro.", "Prices A ride costs 1 euro."),
        ("Tickets > Prices\n## Prices\n\nA ride.", "Tickets > Prices A ride."),
        ("Prices\nPrices\n======\nA ride.", "Prices A ride."),
        ("Prices\n# Fees ##\n\nA ride.", "Prices Fees A ride."),
        ("# Prices\n\n## Fees\nA ride.", "Prices Fees A ride."),
        ("Prices\nA ride.", "Prices\nA ride."),
        ("A ride costs\n\n# 1 euro", "A ride costs\n\n# 1 euro"),
        ("", ""),
    ],
)
def test_headings_are_words_and_there_once(value, expected):
    assert with_plain_headings(value) == expected

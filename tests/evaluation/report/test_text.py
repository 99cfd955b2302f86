"""Numbers and names as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass_evaluation import Result
from secondpass_evaluation.report import text


@given(st.text(), st.integers(4, 20))
def test_cut_names_fit(value, length):
    cut = text.shortened_name(value, length)
    assert len(cut) <= length
    assert len(cut.splitlines()) <= 1


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (text.shortened_name, ("a-long-name-1", 13), "a-long-name-1"),
        (text.shortened_name, ("a-long-name-1", 8), "a-l\N{HORIZONTAL ELLIPSIS}e-1"),
        (text.number, (1234.5, 1), "1,234.5"),
        (text.in_milliseconds, (0.00015,), "0.150"),
        (text.milliseconds, (0.00123,), "1.2 ms"),
        (text.p_value, (0.0009,), "< 0.001"),
        (text.p_phrase, (0.0009,), "p < 0.001"),
        (text.listed, (["a", "b", "c"],), "a, b and c"),
    ],
)
def test_as_text(function, arguments, expected):
    assert function(*arguments) == expected


@pytest.mark.parametrize(
    ("name", "first_stage", "expected"),
    [
        ("lexical+rerank", "lexical", "+rerank"),
        ("lexical", None, "lexical"),
        ("lexical", "lexical", "lexical"),
        ("vector+rerank", "lexical", "vector+rerank"),
    ],
)
def test_a_name_without_that_of_the_first_stage(name, first_stage, expected):
    assert text.short_name(Result(name, "ran", first_stage=first_stage)) == expected

"""Splitting lists into requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.apis.batches import batch_limit, split, token_limit


@given(
    st.integers(0, 5),
    st.lists(st.integers(1, 50), max_size=40),
    st.integers(1, 9),
    st.integers(1, 120),
)
def test_split(start, sizes, documents, tokens):
    """In order, nothing lost, and only a document that is too long alone exceeds the tokens."""
    sizes = [0] * start + sizes
    whole = range(start, len(sizes))
    parts = [*split(whole, documents, sizes, tokens)]
    assert [index for part in parts for index in part] == [*whole]
    assert all(0 < len(part) <= documents for part in parts)
    assert all(sum(sizes[i] for i in part) <= tokens or len(part) == 1 for part in parts)


def test_split_without_a_token_limit():
    assert [*split(range(2, 7), 2, None, None)] == [range(2, 3), range(3, 5), range(5, 7)]


LIMITS = [
    ("The max allowed tokens per submitted batch is 100. Your batch has 145 tokens", (100, 145)),
    ("The max allowed tokens per submitted batch is 145. Your batch has 100 tokens", None),
    ("The max allowed tokens per submitted batch is 0. Your batch has 100 tokens", None),
    ("too many tokens", None),
    ("x" * 2000 + "max allowed tokens per submitted batch is 100. It has 145 tokens", None),
]


@pytest.mark.parametrize(("message", "limit"), LIMITS)
def test_token_limit(message, limit):
    assert token_limit(message) == limit


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("batch size 32 > maximum allowed batch size 16", 16),
        ("maximum allowed batch size: 4", 4),
        ("batch size is invalid, it should not be larger than 25.: input.contents", 25),
        ("List should have at most 64 items after validation, not 100", 64),
        ("String should have at most 64 characters", None),
        ("maximum allowed batch size none", None),
        ("too many documents", None),
        ("x" * 2000 + "maximum allowed batch size 16", None),
    ],
)
def test_batch_limit(message, limit):
    assert batch_limit(message) == limit

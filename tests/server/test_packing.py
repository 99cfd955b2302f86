"""Passages packed into a budget of tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass import Reranker
from secondpass.errors import InputError
from secondpass.questions import estimate_tokens
from secondpass_server.packing import pack


def ranked(*texts):
    return Reranker("lexical").rerank("red apples", list(texts))


TEXTS = st.lists(st.text(st.sampled_from("ab \n\u00e9apple"), max_size=30), max_size=8)


@given(TEXTS, st.integers(1, 60), st.sampled_from(["passages", "spans"]))
def test_what_is_packed_fits_and_nothing_is_forgotten(texts, tokens, parts):
    ranking = ranked(*texts)
    packed = pack(ranking, tokens, parts=parts)
    assert packed.tokens == math.ceil(estimate_tokens(packed.text)) <= tokens
    positions = [source.position for source in packed.sources]
    assert sorted([*positions, *packed.left_out, *packed.repeated]) == list(range(len(texts)))
    assert [source.rank for source in packed.sources] == sorted(s.rank for s in packed.sources)
    for source in packed.sources:
        assert packed.text[source.start : source.stop] == texts[source.position]


def test_smaller_ones_follow_one_that_does_not_fit():
    ranking = ranked("red apples " * 50, "red apples", "a red car")
    packed = pack(ranking, 16)
    assert 0 in packed.left_out
    assert [source.position for source in packed.sources] == [1, 2]


@pytest.mark.parametrize("text", ["", " \n", "\u200b\ufeff"])
def test_a_passage_without_a_visible_character_is_not_packed(text):
    packed = pack(ranked("red apples", text), 100)
    assert (len(packed.sources), packed.left_out) == (1, (1,))


def test_copies_are_packed_once():
    packed = pack(ranked("red apples", "red apples"), 100)
    assert (len(packed.sources), packed.repeated) == (1, (1,))


@pytest.mark.parametrize(
    ("tokens", "parts", "text", "span"),
    [
        (8, "passages", "red apples", (13, 23)),
        (20, "passages", "green pears, red apples", None),
        (20, "spans", "red apples", (13, 23)),
    ],
)
def test_a_span_stands_for_a_passage(tokens, parts, text, span):
    ranking = ranked("green pears, red apples")
    ranking = replace(ranking, items=(replace(ranking[0], span=(13, 23)),))
    packed = pack(ranking, tokens, parts=parts)
    (source,) = packed.sources
    assert packed.text[source.start : source.stop] == text
    assert source.span == span
    assert packed.to_dict()["sources"][0]["span"] == (span and [*span])


def test_the_budget_is_that_of_the_given_counter():
    ranking = ranked("red apples", "red pears")  # each below a head of three words
    packed = pack(ranking, 9, count=lambda text: len(text.split()))
    assert (packed.tokens, len(packed.sources), packed.left_out) == (5, 1, (1,))
    assert pack(ranking, 10, count=lambda text: len(text.split())).tokens == 10


def test_sources_are_named_by_their_metadata():
    candidate = {"text": "red apples", "title": "Fruit\nand trees", "url": "https://example.org"}
    packed = pack(Reranker("lexical").rerank("apples", [candidate]), 50)
    assert packed.text.startswith("[1] Fruit and trees\n")
    assert dict(packed.sources[0].metadata) == {
        "title": "Fruit\nand trees",
        "url": "https://example.org",
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"tokens": 0}, "tokens: give a whole number of 1 or more, not 0"),
        ({"tokens": 1.5}, "tokens: give a whole number"),
        ({"tokens": True}, "tokens: give a whole number"),
        ({"tokens": 5, "parts": "halves"}, "parts: must be 'passages' or 'spans'"),
        ({"tokens": 5, "count": lambda _text: math.nan}, "count: must return a number"),
        ({"tokens": 5, "count": lambda _text: None}, "count: must return a number"),
    ],
)
def test_wrong_arguments(arguments, expected):
    with pytest.raises(InputError, match=expected):
        pack(ranked("red apples"), **arguments)

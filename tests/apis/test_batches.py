"""Splitting lists into requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.apis.batches import (
    BatchRefusedError,
    SizeSearch,
    batch_limit,
    blames_form,
    split,
    token_limit,
)
from secondpass.errors import LLMError
from secondpass.questions import Answer
from secondpass.ranking.issues import IssueCollector
from secondpass.services.provider_errors import ErrorResponse


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


REFUSALS = [
    # the server's words, and whether a smaller request would be refused, too
    ("unknown field `x`", True),
    ("unrecognized request argument supplied: foo", True),
    ("Unsupported parameter: 'top_p'", True),
    ("unexpected keyword argument 'instruction'", True),
    ("missing required parameter", True),
    ("Extra inputs are not permitted", True),
    ("extra_forbidden", True),
    ("field required", True),
    ("Model bge does not support reranking", True),
    ("the model 'm' was not found", True),
    ("return_documents must be false", True),
    ("top_n: must be positive", True),
    ("model m is not loaded", True),
    ("cannot read", False),
    ("", False),
    ("documents and top_n differ", False),
    ("unknown field in document 3", False),
    ("unsupported batch size", False),
    ("the model cannot take so many documents", False),
    ("invalid parameter: at most 25", False),
    ("input: not supported, too long", False),
    ("model: maximum of inputs exceeded", False),
    ("\u6700\u591a 25", False),
    ("query is empty", False),
]


@pytest.mark.parametrize(("message", "blames"), REFUSALS)
def test_what_a_refusal_blames(message, blames):
    texts, others = ("query", "documents"), ("model", "top_n", "return_documents")
    response = ErrorResponse(400, message.lower(), None, None)
    assert blames_form(response, texts, others) is blames
    too_large = ErrorResponse(413, message.lower(), None, None)
    assert not blames_form(too_large, texts, others)


def asked(count, accepts, batch_size=None):
    """The sizes of the requests about so many documents, in the order in which they are sent."""
    answers, sizes = {}, []
    search = SizeSearch(answers, IssueCollector("m"))
    parts = [*split(range(count), batch_size or count, None, None)]
    while parts:
        for part in parts:
            refused = BatchRefusedError("no") if len(part) > 1 else LLMError("no")
            answers[part] = Answer("yes") if accepts(part) else Answer(error=refused)
        sizes.append([len(part) for part in parts])
        parts = search.next_parts()
    return sizes, answers, search


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 200))
def test_a_limit_of_documents_is_found(count, limit, batch_size):
    sizes, answers, search = asked(count, lambda part: len(part) <= limit, batch_size)
    assert sorted(index for part in answers for index in part) == [*range(count)]
    assert all(answer.value == "yes" for answer in answers.values())
    assert search.in_vain is None
    biggest = min(count, batch_size)
    assert len(sizes) <= (1 if biggest <= limit else 3 + (biggest // limit).bit_length())
    assert len(sizes) == 1 or max(map(len, answers)) * 2 + 1 >= min(limit, biggest)


@given(st.integers(2, 200), st.integers(1, 200))
def test_a_refusal_of_all_is_found_by_one_document(count, batch_size):
    sizes, answers, search = asked(count, lambda part: False, batch_size)
    assert sizes[1:] == ([[1]] if max(sizes[0]) > 1 else [])
    assert (search.in_vain is not None) is (max(sizes[0]) > 1)
    assert sorted(index for part in answers for index in part) == [*range(count)]


@given(st.integers(2, 200), st.data())
def test_one_bad_document_costs_few_others(count, data):
    bad = data.draw(st.integers(1, count - 1))
    _, answers, _ = asked(count, lambda part: bad not in part)
    assert sorted(index for part in answers for index in part) == [*range(count)]
    assert any(answer.value == "yes" for answer in answers.values())

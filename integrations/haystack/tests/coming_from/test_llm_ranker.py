"""Compared with LLMRanker."""

from __future__ import annotations

from typing import Any

import pytest
from haystack.components.rankers import LLMRanker
from hypothesis import given
from hypothesis import strategies as st

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import QUERY, Says, both, ids, indices, named
from sampling import examples

BY_INDEX: dict[str, Any] = {
    "method": {"type": "listwise", "labels": "index1", "window": None},
    "depth": None,
}


orders = st.integers(1, 30).flatmap(lambda count: st.permutations(range(1, count + 1)))


@examples(20)
@given(order=orders, own=st.integers(1, 35), of_the_call=st.none() | st.integers(1, 35))
def test_a_full_order_is_followed_as_llmranker_does(
    order: list[int], own: int, of_the_call: int | None
) -> None:
    documents = named(len(order))
    reply = indices(*order)
    theirs = LLMRanker(chat_generator=Says(reply), top_k=own)
    ours = SecondPassRanker(BY_INDEX, chat_generator=Says(reply), top_k=own)
    expected = ids(theirs.run(QUERY, documents, top_k=of_the_call))
    assert ids(ours.run(QUERY, documents, top_k=of_the_call)) == expected
    assert expected == [f"d{number - 1}" for number in order][: of_the_call or own]


@examples(20)
@given(data=st.data(), order=orders)
def test_left_out_documents_follow_those_of_llmranker(
    data: st.DataObject, order: list[int]
) -> None:
    documents = named(len(order))
    reply = indices(*order[: data.draw(st.integers(1, len(order)))])
    theirs = LLMRanker(chat_generator=Says(reply), top_k=len(order)).run(QUERY, documents)
    ours = SecondPassRanker(BY_INDEX, chat_generator=Says(reply)).run(QUERY, documents)
    count = len(theirs["documents"])
    assert ids(ours)[:count] == ids(theirs)
    left_out = [document.id for document in documents if document.id not in ids(theirs)]
    assert ids(ours)[count:] == left_out
    if len(documents) > 1:  # a single document is in order without a question
        statuses = [document.meta["rerank_status"] for document in ours["documents"]]
        assert statuses == ["scored"] * count + ["backfilled"] * len(left_out)


@pytest.mark.parametrize(
    ("reply", "theirs", "ours"),
    [
        (indices(2, 2, 1), ["d1", "d1", "d0"], ["d1", "d0"]),
        (f"```json\n{indices(2, 1)}\n```", ["d0", "d1"], ["d1", "d0"]),
        ('{"documents": []}', [], ["d0", "d1"]),
        ("no JSON", ["d0", "d1"], ["d0", "d1"]),
    ],
)
def test_where_the_two_differ_on_purpose(reply: str, theirs: list[str], ours: list[str]) -> None:
    assert ids(LLMRanker(chat_generator=Says(reply)).run(QUERY, named(2))) == theirs
    ranker = SecondPassRanker(BY_INDEX, chat_generator=Says(reply))
    assert ids(both(ranker, QUERY, named(2))) == ours

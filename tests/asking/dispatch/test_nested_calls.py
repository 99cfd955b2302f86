"""Models that call the reranker which waits for them."""

import threading

import pytest

from fakes import Model, graded, numbered, shown_in
from scripted_services import ranked_by
from secondpass import Reranker
from secondpass.errors import InputError, NestedCallError
from secondpass.strategies.graded import Graded


def nesting(asynchronous, make):
    """A reranker by a model that calls ``make()`` first, and what that raised."""
    raised = []

    def function(messages):
        try:
            make().rerank("q", numbered([1, 2]))
        except Exception as error:
            raised.append(error)
            raise
        return graded(shown_in(messages))

    async def coroutine(messages):
        try:
            await make().arerank("q", numbered([1, 2]))
        except Exception as error:
            raised.append(error)
            raise
        return graded(shown_in(messages))

    return Graded(coroutine if asynchronous else function), raised


@pytest.mark.parametrize("asynchronous", [False, True])
def test_model_calls_its_own_reranker(asynchronous):
    method, raised = nesting(asynchronous, lambda: reranker)
    reranker = Reranker(method, limits={"concurrency": 1}, log_level="debug")
    ranking = ranked_by(reranker, asynchronous)
    (error,) = raised
    assert isinstance(error, NestedCallError)
    assert isinstance(error, InputError)
    (issue,) = ranking.report.issues
    assert (issue.code, issue.message) == ("nested_call", str(error))
    assert "limits.concurrency: 1" in issue.message
    assert ranking.report.usage.calls == 1


def test_all_slots_wait_for_nested_calls():
    """Two outer questions hold both slots, and each waits for a nested one."""
    inside = threading.Barrier(2)

    def function(messages):
        passages = shown_in(messages)
        if "1 wombats" in passages.values() or "2 wombats" in passages.values():
            inside.wait(60)
            reranker.rerank("q", numbered([3]))
        return graded(passages)

    reranker = Reranker(
        Graded(function, batch_size=1), limits={"concurrency": 2}, log_level="debug"
    )
    ranking = reranker.rerank("q", numbered([1, 2]))
    assert sorted(item.status for item in ranking) == ["scored", "unjudged"]
    assert [issue.code for issue in ranking.report.issues] == ["nested_call"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_nested_call_with_a_free_slot(asynchronous):
    plain = Reranker(Graded(Model()), limits={"concurrency": 1})
    method, raised = nesting(asynchronous, lambda: plain)
    reranker = Reranker(method, limits={"concurrency": 1})
    assert ranked_by(reranker, asynchronous).report.status == "ok"
    depth = 0

    def once():
        nonlocal depth
        depth += 1
        return reranker if depth == 1 else plain

    method, raised = nesting(asynchronous, once)
    reranker = Reranker(method, limits={"concurrency": 2})
    assert ranked_by(reranker, asynchronous).report.status == "ok"
    assert (raised, depth) == ([], 2)

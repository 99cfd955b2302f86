"""Models that call the reranker which waits for them."""

from contextlib import contextmanager

import pytest

from fakes import Model, graded, numbered, shown_in
from scripted_services import ranked_by
from secondpass import Reranker
from secondpass.errors import InputError, NestedCallError
from secondpass.strategies.graded import Graded


def nesting(asynchronous, make):
    """A reranker by a model that calls ``make()`` first, and what that raised."""
    raised = []

    @contextmanager
    def noting():
        try:
            yield
        except Exception as error:
            raised.append(error)
            raise

    def function(messages):
        with noting():
            make().rerank("q", numbered([1, 2]))
        return graded(shown_in(messages))

    async def coroutine(messages):
        with noting():
            await make().arerank("q", numbered([1, 2]))
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

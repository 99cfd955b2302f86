"""Promise 2, for what the user's code raises that is no Exception: it never costs the order.

A CancelledError of another task, a group, or a class of another library becomes an issue. An
interrupt and an exit pass, and so does a cancellation of the caller's own task.
"""

import asyncio
import contextlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Answering, ByTable, InOrder, Judging, Model, graded, ranked
from secondpass import Candidate, Reranker, observe
from secondpass.effects import Ask, Score
from secondpass.strategies.cascade import Cascade, CascadeStage

TEXTS = ["a", "bb", "ccc"]


class OtherError(BaseException):
    """Of a library whose exceptions are no Exceptions, as those of some native extensions are."""


CONTAINED = [
    asyncio.CancelledError("secret"),
    BaseExceptionGroup("secret", [asyncio.CancelledError(), ValueError("secret")]),
    OtherError("secret"),
]
EXITS = [
    KeyboardInterrupt(),
    SystemExit(3),
    BaseExceptionGroup("several", [ValueError(), BaseExceptionGroup("", [KeyboardInterrupt()])]),
]


class Odd(Mapping):
    """A metadata value that raises whenever it is read."""

    def __init__(self, error):
        self.error = error

    def _raise(self, *_arguments):
        raise self.error

    __getitem__ = __iter__ = __len__ = __str__ = __float__ = __hash__ = __eq__ = _raise


def candidates(**fields):
    return [Candidate(text, id=text, **fields) for text in TEXTS]


def raising(error):
    def function(*_arguments, **_keywords):
        raise error

    return function


class Running:
    """An ordering that runs a model, and raises before or after that."""

    def __init__(self, error, *, after):
        self.error, self.after = error, after

    def __call__(self, items):
        return items

    def effects(self, items, call):
        if self.after:
            yield Score(ByTable(), "q", [item.text for item in items])
        raise self.error


class Arranging:
    """An ordering that raises when it is asked whether it arranges."""

    def __init__(self, error):
        self.error = error

    @property
    def arranges(self):
        raise self.error

    def __call__(self, items):
        return items


class Method(Judging):
    """A method that raises when it has asked its service, or before."""

    def __init__(self, error, *, asks):
        super().__init__(None)
        self.error, self.asks = error, asks

    def judge(self, task):
        if self.asks:
            yield Ask(Model(), [])
        raise self.error


class Property:
    """A scorer or a model, one of whose members raises."""

    def __init__(self, name, error, inner):
        self._name, self._error, self._inner = name, error, inner

    def __getattr__(self, name):
        if name == self._name:
            raise self._error
        return getattr(self._inner, name)


def of_values(**fields):
    return {"candidates": candidates(**fields)}


def rendering(*fields):
    return {"method": ByTable(), "render": {"fields": [*fields, "text"]}}


def cascade(first=None, last=None):
    return Cascade([CascadeStage(first or InOrder([1, 2, 3])), CascadeStage(last or ByTable())])


MINMAX = {"original": 0.5, "normalize": "minmax"}
AGREEMENT = {"agreement": {"fields": ["one", "two"], "below": 0.5}}

HOOKS = {
    # the settings and arguments of a ranking, by the error; the code of the issue, if there is one
    "ordering": (lambda e: {"order": raising(e)}, "order_failed"),
    "ordering returns": (lambda e: {"order": lambda items: map(raising(e), items)}, "order_failed"),
    "ordering effects": (lambda e: {"order": Running(e, after=False)}, "order_failed"),
    "ordering runs": (lambda e: {"order": Running(e, after=True)}, "order_failed"),
    "ordering arranges": (lambda e: {"order": Arranging(e)}, None),
    "method": (lambda e: {"method": Method(e, asks=False)}, "method_failed"),
    "method asks": (lambda e: {"method": Method(e, asks=True)}, "method_failed"),
    "stage": (lambda e: {"method": cascade(Method(e, asks=True))}, "method_failed"),
    "scorer": (lambda e: {"method": Answering(raising(e))}, "scorer_raised"),
    "score": (lambda e: {"method": InOrder([1, Odd(e), 3])}, "score_not_a_number"),
    "member": (lambda e: {"method": Property("truncated", e, ByTable())}, None),
    "on_interim": (lambda e: {"method": cascade(), "on_interim": raising(e)}, "on_interim_raised"),
    "render": (lambda e: {**rendering("x"), **of_values(metadata={"x": Odd(e)})}, None),
    "render count": (lambda e: {**rendering("x|count"), **of_values(metadata={"x": Odd(e)})}, None),
    "render nested": (lambda e: {**rendering("x.y"), **of_values(metadata={"x": Odd(e)})}, None),
    "when": (lambda e: {"when": AGREEMENT, **of_values(metadata={"one": Odd(e), "two": 1})}, None),
    "term": (lambda e: {"terms": [TERM], **of_values(metadata={"x": Odd(e)})}, "term_missing"),
    "retrieval score": (lambda e: {"blend": MINMAX, **of_values(score=Odd(e))}, None),
    "context": (
        lambda e: {"method": {"type": "graded", "llm": Model(), "prompt": {"context": raising(e)}}},
        "context_failed",
    ),
    "prompt": (
        lambda e: {"method": {"type": "graded", "llm": Model(), "prompt": {"user": raising(e)}}},
        "prompt_failed",
    ),
    "id": (
        lambda e: {
            "method": {"type": "listwise", "llm": Model(ranked), "labels": "id"},
            "candidates": [Candidate(text, id=Odd(e)) for text in TEXTS],
            "dedupe": True,
        },
        None,
    ),
}


TERM = {"type": "number", "field": "x", "high": 1, "weight": 1.0}


def settings_of(hook, error):
    settings = {"method": ByTable(), "candidates": candidates(), **HOOKS[hook][0](error)}
    arguments = {"on_interim": settings.pop("on_interim", None)}
    given_candidates = settings.pop("candidates")
    return Reranker(**settings, log_level="debug"), given_candidates, arguments


def ways(reranker, given_candidates, arguments):
    """Each entry point, as a function that returns the ranking."""

    async def streamed():
        return [item async for item in reranker.astream("q", given_candidates)][-1]

    yield lambda: reranker.rerank("q", given_candidates, **arguments)
    if arguments["on_interim"] is None:
        yield lambda: asyncio.run(reranker.arerank("q", given_candidates))
        yield lambda: asyncio.run(streamed())
        yield lambda: reranker.rerank_many([("q", given_candidates)] * 2)[1]


@given(st.sampled_from(sorted(HOOKS)), st.sampled_from(CONTAINED), st.booleans())
def test_promise_2_no_error_of_the_users_code_costs_the_order(hook, error, observed):
    reranker, given_candidates, arguments = settings_of(hook, error)
    observer = type("Observer", (), dict.fromkeys(["start", "end", "content"], raising(error)))()
    with observe(observer) if observed else contextlib.nullcontext():
        for way in ways(reranker, given_candidates, arguments):
            ranking = way()
            assert sorted(ranking.order) == [0, 1, 2]
            codes = [issue.code for issue in ranking.report.issues]
            assert HOOKS[hook][1] is None or HOOKS[hook][1] in codes
            assert "secret" not in str(ranking.report)


@pytest.mark.parametrize("error", EXITS, ids=["interrupt", "exit", "group"])
@pytest.mark.parametrize("hook", HOOKS)
def test_an_interrupt_and_an_exit_pass(hook, error):
    with pytest.raises(type(error)):  # noqa: PT012 - ids are read when candidates are made
        reranker, given_candidates, arguments = settings_of(hook, error)
        reranker.rerank("q", given_candidates, **arguments)


@pytest.mark.parametrize("error", EXITS, ids=["interrupt", "exit", "group"])
def test_an_exit_of_an_observer_passes(error):
    observer = type("Observer", (), {"start": raising(error)})()
    with observe(observer), pytest.raises(type(error)):
        Reranker("lexical").rerank("q", TEXTS)


class Hanging(Model):
    """A model that is asked, and never answers."""

    def __init__(self):
        super().__init__(graded)
        self.asked = asyncio.Event()

    async def complete(self, prompt):
        self.asked.set()
        await asyncio.sleep(3600)


@pytest.mark.parametrize("error", CONTAINED)
def test_a_cancellation_of_the_caller_passes_at_once(error):
    async def main():
        hanging = Hanging()
        last = {"type": "graded", "llm": hanging}
        reranker = Reranker(cascade(last=last), order=raising(error), log_level="debug")
        stream = reranker.astream("q", TEXTS)
        interim = await anext(stream)  # to which the ordering was applied
        assert [issue.code for issue in interim.report.issues] == ["order_failed"]
        task = asyncio.ensure_future(anext(stream))
        await hanging.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(asyncio.wait_for(main(), 60))

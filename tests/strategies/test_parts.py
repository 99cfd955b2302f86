"""What methods share that run others."""

from types import SimpleNamespace

import pytest

from secondpass import Candidate
from secondpass.effects import Judgement, KeepTime, Task, Windows
from secondpass.errors import MethodError
from secondpass.strategies.parts import (
    Composite,
    Notes,
    asks,
    in_turn,
    part_of,
    scored_order,
)
from secondpass.types import Issue


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


def test_a_part_of_a_task():
    candidates = [Candidate(text) for text in "abc"]
    windows = [Windows([(0, 1)], (0, number)) for number in range(3)]
    task = Task("q", list("abc"), candidates, "context", windows, spans=[None, (0, 1), (0, 2)])
    part = part_of(task, [2, 0])
    assert (part.texts, part.candidates) == (["c", "a"], [candidates[2], candidates[0]])
    assert (part.windows, part.spans) == ([windows[2], windows[0]], [(0, 2), None])
    assert (part.query, part.context) == ("q", "context")
    assert part_of(Task("q", ["a"], candidates[:1]), [0]).windows is None


def test_notes_name_the_method_and_the_indices_of_the_whole_task():
    notes = Notes()
    issues = [Issue("a", "text", (0, 2)), Issue("b", "text", (), (), "m")]
    notes.add(Judgement([1.0], issues=issues), [7, 8, 9], "stage")
    notes.add(Judgement([], degraded=True), [], "other")
    notes.add(Judgement([]), [], "last")
    assert [(issue.code, issue.positions, issue.method) for issue in notes.issues] == [
        ("a", (7, 9), "stage"),
        ("b", (), "m"),
    ]
    assert notes.degraded


@pytest.mark.parametrize(
    ("scores", "original", "order"),
    [
        ([0.1, None, 0.9, 0.1], None, [2, 0, 3]),
        ([None, None], None, []),
        ([0.1, 0.2, 0.9], 1.0, [0, 1, 2]),
        ([0.0, 0.1, 1.0], 0.5, [0, 2, 1]),
    ],
)
def test_scored_order(scores, original, order):
    assert scored_order(Judgement(scores, original=original)) == order


class Member:
    def __init__(self, *models, **members):
        self.calls = []
        self.language_models = models
        for name in members:
            setattr(self, name, lambda name=name: self.calls.append(name))


def test_a_composite_calls_the_members_that_its_methods_have():
    first, second = Member("a", warm_up=1, close=1), Member("b", "c", check_installed=1)
    composite = Composite()
    composite.methods = [first, second, SimpleNamespace(name="bare")]
    composite.check_installed()
    composite.warm_up()
    composite.close()
    assert (first.calls, second.calls) == (["warm_up", "close"], ["check_installed"])
    assert composite.language_models == ["a", "b", "c"]
    assert [asks(method) for method in (composite, Member(), object())] == [True, False, False]

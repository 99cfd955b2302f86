"""Interim judgements: what each strategy has found after each round, and their conversion."""

import pytest

from fakes import (
    ByTable,
    Model,
    best_first,
    in_answer,
    listening,
    number_of,
    numbered,
    play,
    ranked,
    task_of,
)
from secondpass.effects import Judgement
from secondpass.errors import MethodError
from secondpass.questions import Windows
from secondpass.ranking.judgements import converted
from secondpass.ranking.windows import judged_by_windows
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.cascade import Cascade, CascadeStage
from secondpass.strategies.listwise import Listwise


def interims(method, texts, reply=ranked):
    """The interim judgements of a method, and the last one."""
    found = []
    last, _ = play(method.judge(listening(task_of(texts), found)), in_answer(reply))
    return found, last


def numbers(texts, judgement):
    return [number_of(texts[index]) for index in best_first(judgement)]


class Steps:
    """A method that yields interim judgements, and returns the last one that it is given."""

    name = "steps"
    score_kind = "unbounded"
    scale = None
    windows = "one"

    def __init__(self, *judgements, task=None):
        self.judgements = judgements
        self.task = task

    def judge(self, task):
        for judgement in self.judgements[:-1]:
            yield from task.call.interim(self.task or task, lambda found=judgement: found)
        return self.judgements[-1]


def test_listwise_shows_the_order_after_each_window_but_the_last():
    texts = numbered(range(6))
    found, last = interims(Listwise(Model(), window=2, stride=1), texts)
    assert [numbers(texts, judgement) for judgement in found] == [
        [0, 1, 2, 3, 5, 4],
        [0, 1, 2, 5, 3, 4],
        [0, 1, 5, 2, 3, 4],
        [0, 5, 1, 2, 3, 4],
    ]
    assert numbers(texts, last) == [5, 0, 1, 2, 3, 4]


def test_blocks_show_the_joined_order():
    texts = numbered([3, 9, 1, 7, 5, 8])
    found, last = interims(Blocks(Model(), block=3, copies=2, final=2), texts)
    (joined,) = found
    assert sorted(best_first(joined)) == list(range(6))
    assert best_first(joined)[2:] == best_first(last)[2:]
    assert interims(Blocks(Model(), block=3, copies=2, final=0), texts)[0] == []


def cascade(*stages):
    return Cascade([CascadeStage(method, depth) for method, depth in stages])


def against(texts):
    return ByTable({text: -float(number_of(text)) for text in texts})


def test_cascade_shows_its_stages():
    texts = numbered([3, 9, 5, 7, 1])
    method = cascade((against(texts), 4), (Listwise(Model()), 3), (Listwise(Model()), 2))
    found, last = interims(method, texts)
    assert [numbers(texts, judgement) for judgement in found] == [[3, 5, 7, 9], [7, 5, 3, 9]]
    assert [judgement.beyond for judgement in found] == [{4}, {4}]
    assert found[0].stage_scores == [(-3,), (-9,), (-5,), (-7,), ()]
    assert numbers(texts, last) == [7, 5, 3, 9]


def test_interim_judgements_of_windows_become_those_of_their_texts():
    texts = ["ab cd", "ef"]
    windows = [Windows([(0, 2), (3, 5)], (0, 5)), Windows([(0, 2)], (0, 2))]
    task = task_of(texts)
    task = type(task)(task.query, texts, task.candidates, None, windows)
    each = Steps(Judgement([1.0, 3.0, 2.0]), Judgement([4.0, 3.0, 2.0]))
    each.windows = "each"
    found = []
    last, _ = play(judged_by_windows(each, listening(task, found)), None)
    assert [(one.scores, one.spans) for one in [*found, last]] == [
        ([3.0, 2.0], [(3, 5), (0, 2)]),
        ([4.0, 2.0], [(0, 2), (0, 2)]),
    ]
    one = Steps(Judgement([None, 2.0], frozenset({0})), Judgement([1.0, 2.0]))
    found = []
    last, _ = play(judged_by_windows(one, listening(task, found)), None)
    assert [judgement.scores for judgement in found] == [[None, 2.0]]
    assert found[0].spans == [None, (0, 2)]
    assert last.spans[1] == (0, 2)


def test_a_judgement_about_another_task_is_dropped():
    judgement = Judgement([1.0])
    for about, expected in ((None, [judgement]), (task_of(["a"]), [])):
        found = []
        whole = listening(task_of(["a"]), found)
        part = converted(task_of(["a"]), whole, lambda one: one)
        last, _ = play(Steps(judgement, judgement, task=about).judge(part), None)
        assert found == expected
        assert last is judgement


def test_what_is_converted_was_validated():
    whole = listening(task_of(["a"]), [])
    part = converted(task_of(["a"]), whole, lambda one: one)
    with pytest.raises(MethodError, match="0 scores for 1 text"):
        next(Steps(Judgement([]), Judgement([1.0])).judge(part))

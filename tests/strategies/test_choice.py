"""A chosen strategy, which gives ranks to the candidates that it is for."""

from fakes import Model, graded, in_answer, numbered, play, ranked, task_of
from secondpass.methods import to_method
from secondpass.strategies.base import Bounds
from secondpass.strategies.choice import Choice
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise


def choice(count, method=None):
    return Choice(method or Listwise(Model(), window=None), count, "it fits")


def test_ranks_of_all_candidates():
    judgement, _ = play(choice(4).judge(task_of(numbered([2, 9, 4, 7]))), in_answer(ranked))
    assert judgement.scores == [0.25, 1.0, 0.5, 0.75]
    assert (judgement.issues, judgement.unjudged) == ([], frozenset())


def test_grades_become_ranks_and_ties_keep_their_order():
    method = Graded(Model(), scale=(0, 10))
    judgement, _ = play(choice(3, method).judge(task_of(numbered([5, 7, 5]))), in_answer(graded))
    assert judgement.scores == [2 / 3, 1.0, 1 / 3]


def test_candidates_beyond_the_count_are_unjudged_and_reported():
    judgement, asks = play(choice(2).judge(task_of(numbered([2, 9, 4]))), in_answer(ranked))
    assert judgement.scores == [2 / 3, 1.0, None]
    assert judgement.unjudged == {2}
    (issue,) = judgement.issues
    assert (issue.code, issue.positions) == ("limits_too_low", (2,))
    assert asks[0].questions[0].documents == 2


def test_a_single_candidate_is_not_asked_about():
    judgement, asks = play(choice(1).judge(task_of(["1 a"])), in_answer(ranked))
    assert (judgement.scores, judgement.beyond, asks) == ([None], {0}, [])


def test_bounds_are_those_of_the_part():
    chosen = Choice(Listwise(Model(), window=20, stride=10), 30, "it fits")
    assert chosen.bounds(100) == Listwise(Model(), window=20, stride=10).bounds(30)
    assert chosen.bounds(1) == Bounds()
    assert Choice(to_method("lexical"), 5, "").bounds(9) == Bounds()


def test_its_name():
    assert choice(1).name == "auto: listwise by model"

"""Second opinions: which lifts a method that judges candidates alone confirms."""

import json
import re

import pytest

from fakes import Answering, ByTable, InOrder, Model, always, graded, numbered, raising, shown_in
from secondpass import ConfigurationError, Reranker
from secondpass.effects import Judgement
from secondpass.errors import LLMError
from secondpass.strategies.anchor import Anchor
from secondpass.strategies.confirmation import Confirmation
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

DOWN = LLMError("the server failed", "server_error")
CONTROL = "What is rain?"


class Reader(Model):
    """Grades a passage by its number, for the query "wombats" only; obeys what a passage says.

    ``10 obey`` asks for the highest grade whatever the query, ``10 if wombats`` for this query.
    """

    async def complete(self, prompt):
        self.prompts.append(prompt)
        about = "wombats" in re.search(r"<query>(.*?)</query>", prompt.turns[0].text, re.S)[1]
        grades = {}
        for label, text in shown_in(prompt).items():
            number = int(text.split()[0])
            grades[label] = 10 if "obey" in text else number if about else 0
        return type(await super().complete(prompt))(json.dumps(grades))


def one_by_one(model, **settings):
    return {"method": Graded(model, batch_size=1), "control": CONTROL, **settings}


def rank(texts, confirm, lift=1, method=None):
    reranker = Reranker(
        method or Graded(Model(lambda shown: json.dumps({k: grade(t) for k, t in shown.items()}))),
        anchor=Anchor(lift, confirm=confirm),
        log_level="debug",
    )
    return reranker.rerank("wombats", texts)


def grade(text):
    return 10 if "obey" in text else int(text.split()[0])


def issues(ranking):
    return [(issue.code, issue.positions) for issue in ranking.report.issues]


TEXTS = ["1 a", "2 b", "3 c", "10 obey", "9 e", "8 if wombats"]


def test_lifts_that_hold_for_this_query_alone_are_confirmed():
    model = Reader()
    ranking = rank(TEXTS, one_by_one(model))
    # The method's order is 3, 4, 5, 2, 1, 0, and places 1 to 3 are lifted too far.
    assert ranking.order == (4, 5, 3, 2, 1, 0)
    assert issues(ranking) == [("instructions_suspected", (3,)), ("lift_limited", (3,))]
    assert ranking.report.status == "ok"
    shown = [list(shown_in(prompt).values()) for prompt in model.prompts[::2]]
    assert all(len(texts) == 1 for texts in shown)


def test_calls_and_rounds():
    model = Reader()
    ranking = rank(TEXTS, one_by_one(model))
    usage = ranking.report.usage
    # One question of the method, three about the lifted ones, three with the control query.
    assert (usage.calls, usage.rounds) == (7, 3)


def test_scorer_is_asked_once():
    scorer = ByTable({"9 e": 0.9, "10 obey": 0.2, "8 if wombats": 0.4}, score_kind="probability")
    ranking = rank(TEXTS, scorer)
    assert [sorted(texts) for _, texts in scorer.calls] == [["10 obey", "8 if wombats", "9 e"]]
    assert ranking.order[0] == 4
    assert issues(ranking) == [("lift_limited", (3, 5))]


@pytest.mark.parametrize(("floor", "held"), [(None, (3,)), (8.5, (3, 5)), (9.5, (3, 4, 5))])
def test_floor(floor, held):
    ranking = rank(TEXTS, one_by_one(Reader(), floor=floor))
    assert issues(ranking)[-1] == ("lift_limited", held)


def test_depth_limits_what_is_judged():
    model = Reader()
    ranking = rank(TEXTS, one_by_one(model, depth=2))
    # Only the first two of the method's order, 3 and 4.
    assert issues(ranking)[-1] == ("lift_limited", (3, 5))
    assert ranking.report.usage.calls == 1 + 2 + 2


def test_nothing_is_asked_about_what_is_lifted_below_the_depth():
    model = Model()
    texts = ["9 a", *numbered([1, 2, 3, 4])]
    ranking = rank(texts, one_by_one(model, depth=1))
    assert model.prompts == []
    assert issues(ranking) == [("lift_limited", (4,))]
    assert ranking.report.status == "ok"


def test_nothing_is_asked_if_nothing_is_lifted_too_far():
    model = Model()
    ranking = rank(["3 a", "2 b", "1 c"], one_by_one(model))
    assert model.prompts == []
    assert ranking.report.issues == ()


@pytest.mark.parametrize(
    ("confirm", "code"),
    [
        (one_by_one(Model(always(DOWN))), "confirmation_failed"),
        (Answering(raising(RuntimeError("text of a passage"))), "confirmation_failed"),
        (InOrder([None, 0.1, 0.1], score_kind="probability"), "score_missing"),
    ],
)
def test_errors_confirm_nothing(confirm, code):
    if isinstance(confirm, Answering):
        confirm = {"method": confirm, "floor": 0.5}
    ranking = rank(TEXTS, confirm)
    assert [name for name, _ in issues(ranking)] == [code, "lift_limited"]
    assert "text of a passage" not in ranking.report.issues[0].message
    assert issues(ranking)[-1][1] == (3, 4, 5)
    assert ranking.report.status == "degraded"
    assert all(ranking.order.index(index) >= index - 1 for index in range(6))


class OfAnotherKind:
    """Scores that are of another kind than the method usually has."""

    name = "odd"
    score_kind = "probability"
    scale = None
    windows = "each"

    def judge(self, task):
        return Judgement([9.0] * len(task.texts), score_kind="logit")
        yield


def test_scores_of_another_kind_confirm_nothing():
    ranking = rank(TEXTS, OfAnotherKind())
    assert issues(ranking) == [("confirmation_failed", (3, 4, 5)), ("lift_limited", (3, 4, 5))]
    assert ranking.report.status == "degraded"


def test_control_question_that_fails_confirms_nothing():
    replies = [graded, graded, graded, always(DOWN)]
    ranking = rank(["1 a", "2 b", "3 c", "9 d", "9 e", "9 f"], one_by_one(Model(replies)))
    assert issues(ranking)[0][0] == "confirmation_failed"
    assert issues(ranking)[-1] == ("lift_limited", (3, 4, 5))
    assert ranking.report.status == "degraded"


def test_both_questions_show_the_same_window():
    filler = "Nothing of interest stands in this sentence at all. " * 8
    texts = ["1 a", "2 b", f"9 {filler} wombats {filler} rain {filler}"]
    model = Model(lambda shown: json.dumps(dict.fromkeys(shown, 9)))
    first = Graded(Model(lambda shown: json.dumps({k: len(t) % 11 for k, t in shown.items()})))
    reranker = Reranker(first, anchor=Anchor(0, confirm=one_by_one(model)), passages={"size": 120})
    reranker.rerank("wombats", texts)
    shown = [text for prompt in model.prompts for text in shown_in(prompt).values()]
    windows = [text for text in shown if len(text) > 10]
    assert len(windows) == 2
    assert windows[0] == windows[1]
    assert "wombats" in windows[0]


def test_context_is_of_the_query_alone():
    model = Reader()
    reranker = Reranker(
        Graded(Model(lambda shown: json.dumps({k: grade(t) for k, t in shown.items()}))),
        anchor=Anchor(1, confirm=one_by_one(model)),
    )
    reranker.rerank("wombats", TEXTS, context="they are marsupials")
    prompts = [prompt.turns[0].text for prompt in model.prompts]
    assert all(("marsupials" in text) == (CONTROL not in text) for text in prompts)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        (Graded(Model()), {}, "'batch_size: 1'"),
        (Listwise(Model()), {}, "scores each candidate by itself"),
        (ByTable(pointwise=False, score_kind="probability"), {}, "scores each candidate by itself"),
        (ByTable(), {}, "floor: is required for scores of kind 'unbounded'"),
        (Graded(Model(), batch_size=1), {"floor": 10.5}, "floor: is outside the scale .*, 0 to 10"),
        (Graded(Model(), batch_size=1, scale=(1, 5)), {"floor": 0}, "floor: .* 1 to 5"),
        (ByTable(score_kind="probability"), {"floor": 1.5}, "floor: .* 0 to 1"),
        (ByTable(score_kind="similarity"), {"floor": -2}, "floor: .* -1 to 1"),
        (ByTable(), {"floor": 1, "depth": 0}, "depth"),
        (ByTable(), {"floor": 1, "control": ""}, "control"),
    ],
)
def test_wrong_settings(method, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Confirmation(method, **settings)


def test_thresholds():
    assert Confirmation(Graded(Model(), batch_size=1, scale=(1, 5))).threshold == 3
    assert Confirmation(ByTable(score_kind="probability")).threshold == 0.5
    assert Confirmation(ByTable(), floor=-2.5).threshold == -2.5


def test_numbered_texts_are_confirmed_in_their_order():
    texts = numbered([1, 2, 3, 7, 8, 9])
    ranking = rank(texts, one_by_one(Reader()))
    assert ranking.order == (5, 4, 3, 2, 1, 0)
    assert ranking.report.issues == ()

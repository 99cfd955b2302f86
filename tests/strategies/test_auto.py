"""Auto: what is chosen, by limits, model and list; and that what is chosen fits."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fakes import (
    ByTable,
    Model,
    always,
    graded,
    in_answer,
    number_of,
    numbered,
    play,
    ranked,
    shown_in,
    task_of,
)
from sampling import examples
from secondpass import ConfigurationError, Reranker
from secondpass.effects import Ask, Chose, Interim, Judgement, LimitsLeft, RoundsLeft
from secondpass.errors import LLMError, MethodError
from secondpass.limits import Left, Prices
from secondpass.prompts import counting
from secondpass.prompts.questions import Questions
from secondpass.prompts.truncation import estimate_tokens
from secondpass.strategies import auto
from secondpass.strategies.auto import OPTIONS, Auto, Option
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.choice import Choice
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

PRICES = Prices(1, 10)


class Judge(Model):
    """Answers orders and grades, each as it is asked for."""

    def __init__(self, **members):
        super().__init__(ranked, **members)

    async def complete(self, prompt):
        self.replies = [ranked if "ranking" in str(prompt.schema) else tenths]
        return await super().complete(prompt)


def tenths(passages):
    """Honest grades from 0 to 10, of numbers up to 1000."""
    return "{" + ", ".join(f'"{k}": {number_of(v) / 100}' for k, v in passages.items()) + "}"


def choice_of(planned):
    """The strategy, its calls and the number of candidates that it leaves out."""
    (stage,) = planned.stages
    return stage.reason.split(" has ")[0].split(" judges ")[0], stage.calls[1], stage.left_out


CHOICES = [
    # limits, model, strategy, calls, left out; 100 candidates of 100 tokens
    ({}, {}, "blocks (copies: 3)", 16, 0),
    ({"calls": 16}, {}, "blocks (copies: 3)", 16, 0),
    ({"calls": 15}, {}, "blocks", 11, 0),
    ({"calls": 10}, {}, "listwise", 9, 0),
    ({"calls": 8}, {}, "graded", 5, 0),
    ({"calls": 4}, {}, "listwise (window: None)", 1, 0),
    ({"tokens": 40_000}, {}, "blocks (copies: 3)", 16, 0),
    ({"tokens": 30_000}, {}, "blocks", 11, 0),
    ({"tokens": 22_000}, {}, "listwise", 9, 0),
    ({"tokens": 13_000}, {}, "graded", 5, 0),
    ({"tokens": 12_000}, {}, "listwise (window: None)", 1, 0),
    ({"tokens": 6_000}, {}, "listwise (window: None)", 1, 48),
    ({"cost": 0.04}, {}, "blocks", 11, 0),
    ({"calls": 10, "tokens": 15_000}, {}, "graded", 5, 0),
    ({"deadline": 60}, {}, "blocks (copies: 3)", 16, 0),
    ({"deadline": 9, "concurrency": 20}, {}, "blocks (copies: 3)", 16, 0),
    ({"deadline": 9}, {}, "graded", 5, 0),
    ({"deadline": 0.1}, {}, "graded", 5, 0),
    ({"deadline": 9, "concurrency": 2}, {}, "listwise (window: None)", 1, 0),
    ({}, {"context_window": 3000}, "blocks (copies: 3)", 16, 0),
    ({}, {"context_window": 2000}, "blocks (copies: 3), 10 candidates per question,", 31, 0),
    ({}, {"context_window": 1000}, "blocks (copies: 3), 5 candidates per question,", 61, 0),
    ({"calls": 1}, {"context_window": 2000}, "listwise (window: None)", 1, 84),
]


@pytest.mark.parametrize(("limits", "members", "name", "calls", "left_out"), CHOICES)
def test_the_best_that_fits_is_chosen(limits, members, name, calls, left_out):
    model = Judge(prices=PRICES, **members)
    reranker = Reranker({"type": "auto", "llm": model}, limits=limits)
    planned = reranker.plan(100)
    assert choice_of(planned) == (name, calls, left_out)
    assert reranker.plan(100) == planned
    assert model.prompts == []


@pytest.mark.parametrize(
    ("fallback", "name"), [([], "blocks (copies: 3)"), (["lexical"], "graded")]
)
def test_a_fallback_is_left_its_time(fallback, name):
    # Two rounds are expected to take 7.2 seconds; a fallback leaves questions 7.1 of 8.9.
    limits = {"deadline": 8.9, "concurrency": 20}
    planned = Reranker({"type": "auto", "llm": Judge()}, limits=limits, fallback=fallback).plan(100)
    assert choice_of(planned)[0] == name


def test_small_lists_are_one_question():
    reranker = Reranker({"type": "auto", "llm": Judge()}, limits={"calls": 1, "deadline": 1})
    assert choice_of(reranker.plan(20)) == ("blocks (copies: 3)", 1, 0)


limits = st.fixed_dictionaries(
    {},
    optional={
        "calls": st.integers(1, 20),
        "tokens": st.integers(300, 20_000),
        "cost": st.floats(0.001, 0.05),
        "concurrency": st.integers(1, 12),
    },
)


@examples(15)
@given(
    limits,
    st.integers(1, 130),
    st.sampled_from([None, 1, 10, 25]),
    st.sampled_from([None, 900, 4000]),
    st.randoms(use_true_random=False),
)
def test_what_is_chosen_fits_and_is_what_was_planned(limits, count, top_k, window, random):
    model = Judge(prices=PRICES, **({} if window is None else {"context_window": window}))
    reranker = Reranker({"type": "auto", "llm": model}, limits=limits, depth=None, top_k=top_k)
    texts = [f"{number:04} wombats" for number in random.sample(range(1000), count)]
    planned = reranker.plan(texts, query="wombats")
    ranking = reranker.rerank("wombats", texts)
    report = ranking.report
    assume(report.status != "unchanged")  # not even two candidates fit
    codes = {issue.code for issue in report.issues}
    assert codes <= {"limits_too_low"}
    if count > 1:
        (stage,) = planned.stages
        assert report.choices == {stage.method.removeprefix("auto: "): stage.reason}
        assert stage.calls[0] <= len(model.prompts) <= stage.calls[1]
        low, high = reranker.method.bounds(count).calls
        assert low <= len(model.prompts) <= high
        left_out = {i for issue in report.issues for i in issue.positions}
        assert len(left_out) == stage.left_out
        assert left_out == set(range(count - len(left_out), count))
        assert report.status == ("partial" if left_out else "ok")
    if window is not None:
        for prompt in model.prompts:
            assert sum(map(estimate_tokens, (prompt.system, prompt.turns[0].text))) < window


def test_nothing_that_fits_is_a_failure_and_the_fallback_ranks():
    model = Judge()
    method = {"type": "auto", "llm": model}
    ranking = Reranker(method, limits={"tokens": 20}, fallback=["lexical"]).rerank(
        "wombats", numbered(range(50))
    )
    assert model.prompts == []
    assert (ranking.report.status, ranking.report.method) == ("degraded", "lexical")
    assert [issue.code for issue in ranking.report.issues] == ["budget"]


def test_candidates_that_are_left_out_come_last_and_are_reported():
    numbers = [*range(100, 200), *range(100)]
    reranker = Reranker({"type": "auto", "llm": Judge()}, limits={"tokens": 2500}, depth=None)
    ranking = reranker.rerank("wombats", numbered(numbers))
    (issue,) = ranking.report.issues
    kept = 200 - len(issue.positions)
    assert issue.code == "limits_too_low"
    assert 20 < kept < 200
    assert issue.positions == tuple(range(kept, 200))
    assert [numbers[at] for at in ranking.order][:kept] == sorted(numbers[:kept], reverse=True)
    assert ranking.order[kept:] == issue.positions
    assert {ranking[kept].status, ranking[199].status} == {"unjudged"}
    scores = [item.rerank_score for item in ranking][:kept]
    assert scores == sorted(scores, reverse=True)


@examples(8)
@given(st.integers(300, 7000), st.sampled_from([0, 3]))
def test_one_more_candidate_would_not_fit(tokens, calls):
    limits = {"tokens": tokens, **({"calls": calls} if calls else {})}
    reranker = Reranker({"type": "auto", "llm": Judge()}, limits=limits, depth=None)
    (stage,) = reranker.plan(60).stages
    assume(0 < stage.left_out < 58)
    fitting = 60 - stage.left_out
    assert reranker.plan(fitting).stages[0].left_out == 0
    assert reranker.plan(fitting + 1).stages[0].left_out > 0


def test_grades_become_ranks_and_ties_keep_their_order():
    method = Auto(Model(lambda passages: graded(dict.fromkeys(passages, "5 same"))))
    task = task_of([f"{number} wombats" for number in range(100)])
    choice = method.choose(task, Left(calls=6))
    assert isinstance(choice.method, Graded)
    judgement, _ = play(choice.judge(task), in_answer(lambda p: graded(dict.fromkeys(p, "5 x"))))
    assert judgement.scores == [(100 - index) / 100 for index in range(100)]
    assert judgement.score_kind is None


def test_no_prompt_is_rendered_and_each_text_is_counted_once(monkeypatch):
    counts = Counter()

    def as_text(text):
        counts[text] += 1
        return text

    monkeypatch.setattr(counting, "as_text", as_text)
    monkeypatch.delattr(Questions, "_prompt")
    texts = numbered(range(100))
    choice = Auto(Judge()).choose(task_of(texts), Left(tokens=400.0))
    assert 2 < choice.count < 100
    assert counts == Counter(texts)


# ---------------------------------------------------------------------- time


def run(method, task, lefts, fails=False):
    """Run a judgement with these limits left, before and after it asks; what was chosen."""
    before, *after = lefts
    plan, result, chosen = method.judge(task), None, None
    while True:
        try:
            effect = plan.send(result)
        except (StopIteration, MethodError):
            return chosen
        result = None
        if isinstance(effect, LimitsLeft):
            result = before  # the chosen strategy may want to know it, too
        elif isinstance(effect, Chose):
            chosen = effect
        elif not isinstance(effect, Interim | RoundsLeft):
            assert isinstance(effect, Ask)
            answer = in_answer(always(LLMError("too slow", "timeout")) if fails else ranked)
            result = [answer(question) for question in effect.questions]
            before = next(iter(after), before)


def test_a_failure_at_once_does_not_make_calls_fast():
    method, task = Auto(Model(ranked)), task_of(numbered(range(100)))
    run(method, task, [Left(), Left(question_seconds=4.0, question_waves=2)])
    run(method, task, [Left(), Left(question_seconds=0.1, question_waves=1)], fails=True)
    assert method._measured == 2
    run(method, task, [Left(), Left(question_seconds=8.0, question_waves=1)], fails=True)
    assert method._measured == 8


@pytest.mark.parametrize("fails", [False, True])
def test_seconds_per_call_are_measured_and_then_expected(fails):
    method, task = Auto(Model(ranked), seconds_per_call=10), task_of(numbered(range(100)))
    narrow = Left(seconds=20.0)
    spent = Left(seconds=20.0, question_seconds=9.0, question_waves=3)
    later = Left(seconds=11.0, question_seconds=11.0, question_waves=5)
    assert method.choose(task, narrow).method.name.startswith("graded")
    # Two waves took two seconds; the three before were of another method.
    run(method, task, [spent, later], fails)
    assert method.choose(task, narrow).method.name.startswith("blocks")
    assert method.choose(task, Left(seconds=3.5)).method.name.startswith("graded")
    # What a plan assumes counts more.
    assumed = Left(seconds=20.0, seconds_per_call=10.0)
    assert method.choose(task, assumed).method.name.startswith("graded")


def test_a_ranking_without_questions_measures_nothing():
    method, task = Auto(Model(ranked), seconds_per_call=10), task_of(numbered(range(100)))
    run(method, task, [Left(), Left()])
    assert method._measured == 0


def test_the_ledger_measures_times_of_one_call():
    model = Judge(seconds=0.05)
    reranker = Reranker({"type": "auto", "llm": model}, limits={"calls": 12, "concurrency": 5})
    reranker.rerank("wombats", numbered(range(100)))
    # Ten blocks in two waves, and one question.
    assert len(model.prompts) == 11
    assert reranker.method._measured > 0.04


def test_rankings_that_wait_for_their_turn_have_all_of_the_time():
    model = Judge()
    reranker = Reranker({"type": "auto", "llm": model}, limits={"deadline": 60.0})
    texts = numbered(range(100))
    reports = [each.report for each in reranker.rerank_many([("wombats", texts)] * 3)]
    assert [[*report.choices] for report in reports] == [["blocks by model"]] * 3


# ---------------------------------------------------------------------- where it stands


def test_stages_of_a_cascade_choose_by_what_is_left():
    model = Judge()
    stages = [{"type": "graded", "llm": model}, {"type": "auto", "llm": model, "depth": 60}]
    method = {"type": "cascade", "stages": stages}
    planned = Reranker(method, limits={"calls": 10}).plan(100)
    assert [stage.calls for stage in planned.stages] == [(5, 5), (5, 5)]
    assert planned.stages[1].method == "auto: listwise by model"
    assert planned.exceeded == ()


def test_the_report_of_a_cascade_says_what_was_chosen():
    method = {
        "type": "cascade",
        "stages": [{"type": "lexical"}, {"type": "auto", "llm": Judge(), "depth": 50}],
    }
    report = Reranker(method).rerank("wombats", numbered(range(60))).report
    assert report.method == "lexical, then auto by model"
    assert report.choices == {"blocks by model": "blocks (copies: 3) has the best expected quality"}
    assert report.to_dict()["choices"] == report.choices


class Wants:
    """A method that keeps how many of the best are wanted."""

    name, score_kind, scale = "wants", "rank", None

    def __init__(self):
        self.wanted = []

    def judge(self, task):
        self.wanted.append(task.top_k)
        return Judgement([1.0] * len(task.texts))
        yield


def test_methods_are_told_how_many_are_wanted():
    method = Wants()
    for top_k in (None, 7):
        Reranker(method, top_k=top_k).rerank("q", ["a", "b"])
    Reranker(method).rerank("q", ["a", "b"], top_k=3)
    assert method.wanted == [None, 7, 3]
    first, second, last = Wants(), Wants(), Wants()
    stages = [{"method": first}, {"method": second, "depth": 20}, {"method": last, "depth": 5}]
    Reranker({"type": "cascade", "stages": stages}, top_k=2).rerank("q", ["a", "b"])
    assert (first.wanted, second.wanted, last.wanted) == ([20], [5], [2])


# ---------------------------------------------------------------------- options


def test_a_strategy_joins_by_one_line(monkeypatch):
    mine = Option("listwise", {"stride": 15}, groups=("window",))
    monkeypatch.setattr(auto, "OPTIONS", (mine, *OPTIONS))
    choice = Auto(Model()).choose(task_of(numbered(range(100))), Left())
    assert (type(choice.method), choice.method.stride) == (Listwise, 15)


def test_a_strategy_that_the_model_cannot_answer_is_not_considered(monkeypatch):
    def refuse(*_arguments, **_settings):
        raise ConfigurationError("llm: has no logprobs")

    monkeypatch.setattr(Blocks, "__init__", refuse)
    choice = Auto(Model()).choose(task_of(numbered(range(100))), Left())
    assert choice.reason == "listwise has the best expected quality"


def test_settings_are_those_of_the_strategies():
    reranker = Reranker(
        {
            "type": "auto",
            "llm": (model := Judge()),
            "labels": "index1",
            "prompt": {"criteria": ["freshness"]},
        }
    )
    reranker.rerank("wombats", numbered(range(30)))
    assert all("freshness" in prompt.system + prompt.turns[0].text for prompt in model.prompts)
    assert next(iter(shown_in(model.prompts[0]))) == "1"


def test_a_single_candidate_is_left_alone():
    model = Judge()
    reranker = Reranker({"type": "auto", "llm": model})
    ranking = reranker.rerank("wombats", ["one"])
    assert (ranking.report.status, ranking[0].status, ranking.report.choices) == ("ok", "tail", {})
    assert reranker.plan(1).total.calls == (0, 0)
    assert reranker.plan(1).notes == []  # nothing is chosen
    assert reranker.plan(0).total.calls == (0, 0)
    assert model.prompts == []


def test_both_ways_agree(rank):
    numbers = [(7 * number) % 100 for number in range(100)]
    reranker = Reranker({"type": "auto", "llm": Judge()}, limits={"calls": 9}, depth=None)
    ranking = rank(reranker, "wombats", numbered(numbers))
    assert [numbers[at] for at in ranking.order][:10] == [*range(99, 89, -1)]
    assert [*ranking.report.choices] == ["listwise by model"]


def test_a_local_stage_is_not_asked_for_its_pace():
    stages = [{"method": ByTable()}, {"type": "auto", "llm": Judge(), "depth": 40}]
    reranker = Reranker({"type": "cascade", "stages": stages}, limits={"deadline": 60})
    assert reranker.rerank("q", numbered(range(50))).report.status == "ok"


def test_interim_rankings_of_a_choice_for_fewer_have_all_candidates():
    choice = Choice(Listwise(Model(ranked), window=3, stride=2), 5, "a test")
    found = []
    last = Reranker(choice, log_level="debug").rerank(
        "wombats", numbered(range(7)), on_interim=found.append
    )
    assert [ranking.order[-2:] for ranking in [*found, last]] == [(5, 6)] * 2
    assert [ranking.order[:2] for ranking in [*found, last]] == [(0, 1), (4, 1)]
    for ranking in [*found, last]:
        assert [issue.code for issue in ranking.report.issues] == ["limits_too_low"]

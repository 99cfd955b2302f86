"""One ranking pass: what is judged, left alone, reordered and reported."""

import asyncio
import json
import math
from dataclasses import replace
from typing import get_args

import pytest

from fakes import Answering, ByTable, InOrder, Judging, Model
from secondpass import Candidate, Reranker, RerankError
from secondpass.effects import Judgement
from secondpass.errors import MethodError
from secondpass.questions import Completion
from secondpass.strategies.blocks import Blocks
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass.strategies.pointwise import Pointwise
from secondpass.types import DEGRADED_WORDS, DegradedBy, Issue

TIERS = {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}
LEVELS = [
    Candidate("a", score=0.9, metadata={"level": "hard"}),
    Candidate("b", score=0.8, metadata={"level": "easy"}),
    Candidate("c", score=0.7, metadata={"level": "easy"}),
]


ALONE = {
    "listwise": Listwise(Model()),
    "graded": Graded(Model(), judge_single=False),
    "cascade": Cascade(
        [{"method": Graded(Model(), judge_single=False)}, {"method": Listwise(Model())}]
    ),
}


@pytest.mark.parametrize("method", ALONE)
def test_single_candidate_is_left_alone(method):
    blend = None if method == "cascade" else {"original": 0.5, "normalize": "minmax"}
    floor = 0.9 if method == "graded" else None
    reranker = Reranker(ALONE[method], blend=blend, floor=floor, strict=True, order=TIERS)
    ranking = reranker.rerank("q", [Candidate("a", score=0.1)])
    report, item = ranking.report, ranking[0]
    assert (report.status, report.issues, report.left_out) == ("ok", (), {})
    assert (report.usage.calls, report.method, report.score_kind) == (0, None, None)
    assert (item.status, item.rerank_score, item.final_score) == ("tail", None, 0.1)


def test_ordering_by_metadata_is_applied_when_nothing_was_judged():
    failing = Answering(lambda count: None)
    ranking = Reranker(failing, log_level="debug", order=TIERS).rerank("q", LEVELS)
    assert ranking.order == (1, 2, 0)
    assert [item.final_score for item in ranking] == [0.8, 0.7, 0.9]
    assert [item.status for item in ranking] == ["unjudged"] * 3
    assert ranking.report.status == "unchanged"
    codes = [issue.code for issue in ranking.report.issues]
    assert codes == ["scores_no_list", "order_applied_unjudged"]


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({}, "ok"),
        ({"blend": {"original": 0.5, "normalize": "minmax"}}, "ok"),
        ({"blend": {"original": 0.5, "normalize": "zscore"}}, "ok"),
        ({"blend": {"original": 0.5, "normalize": "rrf"}}, "ok"),
        ({"blend": {"original": 0.5}}, "unchanged"),
        ({"floor": 0.1}, "unchanged"),
        ({"blend": {"original": 0.5, "normalize": "rrf"}, "floor": 0.1}, "unchanged"),
    ],
)
def test_scores_of_another_kind_need_settings_that_do_not_depend_on_it(settings, status):
    method = Judging(Judgement([7.0, -3.0], score_kind="logit"), score_kind="probability")
    given = [Candidate("a", score=0.2), Candidate("b", score=0.1)]
    report = Reranker(method, log_level="debug", **settings).rerank("q", given).report
    assert (report.status, report.score_kind) == (status, "logit" if status == "ok" else None)
    codes = [issue.code for issue in report.issues]
    assert codes == ([] if status == "ok" else ["score_out_of_range"])


WEIGHED = Issue("hard_to_read", "half of it", (0,))
SCORES = [0.1, 0.9, 0.5]
WEIGHTS = [
    # weight, blend; order, final scores, status
    (None, None, (1, 2, 0), SCORES, "ok"),
    (0.0, None, (1, 2, 0), SCORES, "ok"),
    (0.6, None, (0, 1, 2), [0.6, 0.7, 0.2], "degraded"),
    (0.6, {"original": 0.2}, (0, 1, 2), [0.58, 0.84, 0.62], "degraded"),
    (0.2, {"original": 0.6, "normalize": "minmax"}, (0, 1, 2), [0.6, 0.7, 0.2], "degraded"),
    (1.0, None, (0, 1, 2), [0.9, 0.8, 0.7], "unchanged"),
    (1.0, {"original": 0.2}, (0, 1, 2), [0.9, 0.8, 0.7], "unchanged"),
]


@pytest.mark.parametrize(("weight", "blend", "order", "finals", "status"), WEIGHTS)
def test_weight_of_the_original_order(weight, blend, order, finals, status):
    judgement = Judgement(SCORES, issues=[WEIGHED], original=weight)
    method = Judging(judgement, score_kind="probability")
    reranker = Reranker(method, blend=blend, fallback=[InOrder([1, 2, 3])], log_level="debug")
    ranking = reranker.rerank("q", LEVELS)
    by_position = {item.position: item.final_score for item in ranking}
    assert [by_position[at] for at in range(3)] == pytest.approx(finals)
    finals_in_order = [item.final_score for item in ranking]
    assert finals_in_order == sorted(finals_in_order, reverse=True)
    report = ranking.report
    assert report.status == status
    assert [(issue.code, issue.positions) for issue in report.issues] == [("hard_to_read", (0,))]
    kept = status == "unchanged"
    assert report.method == (None if kept else "judging")
    assert {item.status for item in ranking} == {"unjudged" if kept else "scored"}
    strict = Reranker(method, blend=blend, strict=True, log_level="debug")
    if status == "ok":
        assert strict.rerank("q", LEVELS).order == ranking.order
    else:
        with pytest.raises(RerankError, match="hard_to_read"):
            strict.rerank("q", LEVELS)


def by_length(passages):
    return json.dumps({label: len(text) % 11 for label, text in passages.items()})


def longest_first(passages):
    return json.dumps({"ranking": sorted(passages, key=lambda label: -len(passages[label]))})


def yes_or_no(passages):
    (text,) = passages.values()
    return Completion("Yes", logprobs=[{"Yes": math.log(0.1 + len(text) / 100)}])


EVERY_KIND = {
    "your own scorer": ByTable(),
    "lexical": "lexical",
    "embedded": "embedded",
    "graded": Graded(Model(by_length)),
    "listwise": Listwise(Model(longest_first), window=2, stride=1),
    "blocks": Blocks(Model(longest_first), block=2),
    "pointwise": Pointwise(Model(yes_or_no, has_logprobs=True)),
    "cascade": Cascade([{"method": "lexical"}, {"method": Graded(Model(by_length)), "depth": 3}]),
}
BLANK = [" ", "\u200b\n", "", "\x00"]
TEXTS = ["A wombat digs.", BLANK[0], "Wombats sleep.", *BLANK[1:], "A wombat eats grass.", "Owls"]


@pytest.mark.parametrize("passages", [None, {"size": 8}])
@pytest.mark.parametrize("method", EVERY_KIND.values(), ids=EVERY_KIND)
def test_a_text_without_a_visible_character_is_as_none(method, passages):
    """Whatever the method is, and the way that it is called."""
    reranker = Reranker(method, passages=passages, log_level="debug")
    blank = [Candidate(text, id=text, score=0.5) for text in TEXTS]
    absent = [replace(one, text=None) if one.text in BLANK else one for one in blank]

    async def last(candidates):
        return [ranking async for ranking in reranker.astream("wombats", candidates)][-1]

    def described(ranking):
        items = [(item.id, item.status, item.rerank_score, item.span) for item in ranking]
        return items, ranking.report.issues, ranking.report.status, ranking.report.usage

    expected = described(reranker.rerank("wombats", absent))
    for ranking in (
        reranker.rerank("wombats", blank),
        asyncio.run(reranker.arerank("wombats", blank)),
        asyncio.run(last(blank)),
        *reranker.rerank_many([("wombats", blank)]),
    ):
        assert described(ranking) == expected
    items, issues, status, _ = expected
    assert [name for name, *_ in items[-4:]] == BLANK
    assert [item_status for _, item_status, *_ in items] == ["scored"] * 4 + ["unjudged"] * 4
    assert (issues[0].code, issues[0].positions, status) == ("no_text", (1, 3, 4, 5), "partial")
    assert reranker.plan(blank).total == reranker.plan(absent).total


NOT_ENGLISH, DOUBT = Issue("not_english", "few words are"), Issue("model_doubtful", "noise")
REASONS = {
    # what the method judges, or raises; why the ranking is degraded
    "nothing": ({}, ()),
    "another language": ({"original": 0.5, "issues": [NOT_ENGLISH]}, ("language",)),
    "a weight of its own": ({"original": 0.5, "issues": [WEIGHED]}, ("original",)),
    "a language that has no effect": ({"issues": [NOT_ENGLISH]}, ()),
    "a doubtful model": ({"issues": [DOUBT]}, ("doubtful",)),
    "a part that failed": ({"degraded_by": {"stage"}}, ("stage",)),
    "several": (
        {"degraded_by": ["stage"], "original": 0.1, "issues": [DOUBT, NOT_ENGLISH]},
        ("language", "doubtful", "stage"),
    ),
}


@pytest.mark.parametrize("is_fallback", [False, True])
@pytest.mark.parametrize(("judgement", "reasons"), REASONS.values(), ids=REASONS)
def test_why_a_ranking_is_degraded(judgement, reasons, is_fallback):
    method = Judging(Judgement(SCORES, **judgement))
    settings = {"method": method}
    if is_fallback:
        settings = {"method": Judging(MethodError("down", "down")), "fallback": [method]}
        reasons = ("fallback", *reasons)
    ranking = Reranker(**settings, log_level="debug").rerank("q", LEVELS)
    report = ranking.report
    assert report.degraded_by == reasons
    assert (report.status == "degraded") == bool(reasons)
    assert report.to_dict()["degraded_by"] == [*reasons]
    assert report.status_text == (f"degraded by {', '.join(reasons)}" if reasons else "ok")
    assert repr(ranking).startswith(f"<Ranking {report.status_text}: 3 items;")
    explanation = ranking.explain(position=0)
    assert explanation.degraded_by == reasons
    assert all(DEGRADED_WORDS[reason] in str(explanation) for reason in reasons)
    strict = Reranker(**settings, strict=True, log_level="debug")
    if {*reasons} <= {"fallback"}:
        assert strict.rerank("q", LEVELS).order == ranking.order
    else:
        with pytest.raises(RerankError, match=f"reranking is {report.status_text}, and strict"):
            strict.rerank("q", LEVELS)


def test_every_reason_has_words():
    assert [*DEGRADED_WORDS] == [*get_args(DegradedBy)]


def test_spans():
    judgement = Judgement([0.1, 0.2, 0.3], spans=[(0, 1), None, (1, 2)])
    candidates = ["one", Candidate(None), "two", "three"]
    ranking = Reranker(Judging(judgement), log_level="debug").rerank("q", candidates)
    found = {item.position: item.span for item in ranking}
    assert found == {0: (0, 1), 1: None, 2: None, 3: (1, 2)}


WITH_ISSUES = Judging(
    Judgement([1.0, 1.0], issues=[WEIGHED, Issue("named", "likewise", (), (), "inner")])
)
SCORED = [Candidate("a", id="a", score=0.4), Candidate("b", id="b", score=0.2)]


FAILS, PROBABLE = Answering(lambda count: None), InOrder([0.5], score_kind="probability")
REPORTS = {
    # by code: settings, candidates, and what the issue has: message, positions, method
    "floor_not_applied": (
        {"method": FAILS, "floor": 9.0, "fallback": [ByTable()]},
        SCORED,
        ("the threshold applies to the method only; this fallback has none", (), "by-table"),
    ),
    "named": ({"method": WITH_ISSUES}, SCORED, ("likewise", (), "inner")),
    "original_out_of_range": (
        {"method": PROBABLE, "blend": {"original": 0.5}},
        [Candidate("a", score=7)],
        ("retrieval scores outside 0 to 1 were blended as they are", (0,), None),
    ),
    "order_failed": (
        {"method": ByTable(), "order": lambda items: 1 / 0},
        SCORED,
        ("the ordering raised ZeroDivisionError; with strict, the exception is raised", (), None),
    ),
}


@pytest.mark.parametrize("code", REPORTS)
def test_issue_says_what_happened_and_where(code):
    settings, given, expected = REPORTS[code]
    ranking = Reranker(**settings, log_level="debug").rerank("the query", given)
    (issue,) = [one for one in ranking.report.issues if one.code == code]
    assert (issue.message, issue.positions, issue.method) == expected
    assert issue.ids == tuple(given[at].id for at in issue.positions)
    assert ranking.query == "the query"
    assert ranking.report.seconds > 0


@pytest.mark.parametrize(
    ("text", "render", "message"),
    [
        (5, None, "; the text of candidates[1] is an int, not a string"),
        (b"owl", None, "; the text of candidates[1] is bytes, not a string"),
        (None, None, ""),
        (" ", None, ""),
        (5, {"fields": ["text", "title"]}, ""),
    ],
)
def test_a_text_that_is_not_a_string_is_kept_and_named(text, render, message):
    reranker = Reranker("lexical", render=render, log_level="debug")
    ranking = reranker.rerank("owl", ["owl", {"text": text}])
    (issue,) = [one for one in ranking.report.issues if one.code == "no_text"]
    assert issue.message == f"there is nothing of these to show to a method{message}"
    assert ranking[1].candidate.text == text


def test_candidates_without_text_are_not_shown():
    method = Judging(Judgement([0.1, 0.2]))
    candidates = [Candidate("a", id="x"), Candidate(None, id="y"), Candidate("b", id="z")]
    ranking = Reranker(method, log_level="debug").rerank("q", candidates)
    (task,) = method.tasks
    assert (list(task.texts), [one.id for one in task.candidates]) == (["a", "b"], ["x", "z"])
    scores = [(item.position, item.rerank_score) for item in ranking]
    assert scores == [(2, 0.2), (0, 0.1), (1, None)]
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions, issue.ids) == ("no_text", (1,), ("y",))


BEYOND = [
    # settings; how many are beyond the depth; how many are scored, in words
    ({}, 0, "5 of 5 scored"),
    ({"depth": 5}, 0, "5 of 5 scored"),
    ({"depth": None}, 0, "5 of 5 scored"),
    ({"depth": 2}, 4, "2 of 6 scored (depth 2)"),
    ({"depth": 2, "dedupe": True}, 3, "2 of 5 scored (depth 2)"),
    ({"depth": 2, "tail": "drop"}, 4, "2 of 6 scored (depth 2)"),
    ({"depth": 3, "when": {"words": {"at_least": 9}, "depth": 1}}, 3, "1 of 6 scored (depth 3)"),
]


@pytest.mark.parametrize(("settings", "beyond", "words"), BEYOND)
def test_the_report_counts_what_stands_beyond_the_depth(settings, beyond, words):
    texts = [Candidate(text, id=text) for text in ("a", "b", "c", "d", "e")]
    if beyond:
        texts.append(Candidate("a", id="a"))
    report = Reranker("lexical", **settings).rerank("a b", texts).report
    assert (report.status, report.beyond_depth, report.scored_text) == ("ok", beyond, words)
    assert report.to_dict()["beyond_depth"] == beyond
    assert words in repr(report)

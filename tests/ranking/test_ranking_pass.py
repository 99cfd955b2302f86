"""One ranking pass: what is judged, left alone, reordered and reported."""

import asyncio
import logging

import pytest

from fakes import Answering, ByTable, InOrder, Model, always, graded, numbered
from secondpass import Candidate, MethodError, Ranked, Reranker, RerankError
from secondpass.effects import Judgement
from secondpass.errors import LLMError
from secondpass.ranking.ordering import LostInTheMiddle, Tiers
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise
from secondpass.types import Issue

TIERS = {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}
LEVELS = [
    Candidate("a", score=0.9, metadata={"level": "hard"}),
    Candidate("b", score=0.8, metadata={"level": "easy"}),
    Candidate("c", score=0.7, metadata={"level": "easy"}),
]


class Judging:
    """A method that returns a given judgement."""

    name, scale = "judging", None

    def __init__(self, judgement, score_kind="probability"):
        self.judgement = judgement
        self.score_kind = score_kind

    def judge(self, task):
        return self.judgement
        yield


def failing(**settings):
    return Reranker(Answering(lambda count: None), log_level="debug", **settings)


# ---------------------------------------------------------------------- a single candidate

ALONE = {
    "listwise": lambda: Listwise(Model()),
    "graded": lambda: Graded(Model(), judge_single=False),
    "cascade": lambda: {
        "type": "cascade",
        "stages": [
            {"type": "graded", "llm": Model(), "judge_single": False},
            {"type": "listwise", "llm": Model()},
        ],
    },
}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("method", ALONE)
def test_single_candidate_is_left_alone(method, asynchronous):
    blend = None if method == "cascade" else {"original": 0.5, "normalize": "minmax"}
    floor = 0.9 if method == "graded" else None
    reranker = Reranker(ALONE[method](), blend=blend, floor=floor, strict=True, order=TIERS)
    given = [Candidate("a", score=0.1)]
    if asynchronous:
        ranking = asyncio.run(reranker.arerank("q", given))
    else:
        ranking = reranker.rerank("q", given)
    report, item = ranking.report, ranking[0]
    assert (report.status, report.issues, report.left_out) == ("ok", (), {})
    assert (report.usage.calls, report.method, report.score_kind) == (0, None, None)
    assert (item.status, item.rerank_score, item.final_score) == ("tail", None, 0.1)


def test_single_candidate_among_others_without_text_is_unchanged():
    ranking = Reranker(Listwise(Model()), log_level="debug").rerank("q", ["a", Candidate(None)])
    assert ranking.report.status == "unchanged"
    assert [item.status for item in ranking] == ["tail", "unjudged"]


def test_scorers_judge_a_single_candidate():
    ranking = Reranker(InOrder([0.5])).rerank("q", ["a"])
    assert (ranking.report.status, ranking[0].rerank_score) == ("ok", 0.5)


# ---------------------------------------------------------------------- nothing was judged


def test_ordering_by_metadata_is_applied_when_nothing_was_judged():
    ranking = failing(order=TIERS).rerank("q", LEVELS)
    assert ranking.order == (1, 2, 0)
    assert [item.final_score for item in ranking] == [0.8, 0.7, 0.9]
    assert [item.status for item in ranking] == ["unjudged"] * 3
    assert ranking.report.status == "unchanged"
    codes = [issue.code for issue in ranking.report.issues]
    assert codes == ["scores_no_list", "order_applied_unjudged"]


def test_own_ordering_is_given_ranked_items_when_nothing_was_judged():
    given = []

    def backwards(items):
        given.extend(items)
        return items[::-1]

    ranking = failing().rerank("q", LEVELS, order=backwards, top_k=2)
    assert ranking.order == (2, 1)
    assert all(isinstance(item, Ranked) for item in given)
    assert ranking.report.left_out == {"top_k": (0,)}


def test_ordering_that_lays_out_needs_a_ranking():
    ranking = failing(order="lost_in_the_middle").rerank("q", LEVELS)
    assert ranking.order == (0, 1, 2)
    assert [issue.code for issue in ranking.report.issues] == ["scores_no_list"]


def test_ordering_that_fails_when_nothing_was_judged_is_reported():
    ranking = failing().rerank("q", LEVELS, order=lambda items: items[:1])
    assert ranking.order == (0, 1, 2)
    codes = [issue.code for issue in ranking.report.issues]
    assert codes == ["scores_no_list", "order_refused"]


def test_ordering_when_nothing_was_judged_leaves_the_tail_in_place():
    ranking = failing(order=TIERS, depth=2).rerank("q", LEVELS)
    assert ranking.order == (1, 0, 2)


def test_strict_error_carries_the_ordered_ranking():
    with pytest.raises(RerankError, match="order_applied_unjudged") as caught:
        failing(order=TIERS, strict=True).rerank("q", LEVELS)
    assert caught.value.ranking.order == (1, 2, 0)


def test_shipped_orderings_take_plain_candidates():
    ordered = Tiers(field="level", tiers=["easy", "hard"])(LEVELS)
    assert [one.text for one in ordered] == ["b", "c", "a"]
    assert [one.text for one in LostInTheMiddle()(LEVELS)] == ["a", "c", "b"]


# ---------------------------------------------------------------------- score kinds


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
    method = Judging(Judgement([7.0, -3.0], score_kind="logit"))
    given = [Candidate("a", score=0.1), Candidate("b", score=0.2)]
    report = Reranker(method, log_level="debug", **settings).rerank("q", given).report
    assert (report.status, report.score_kind) == (status, "logit" if status == "ok" else None)
    codes = [issue.code for issue in report.issues]
    assert codes == ([] if status == "ok" else ["score_out_of_range"])


def test_floor_of_the_call_counts_as_well():
    method = Judging(Judgement([7.0], score_kind="logit"))
    report = Reranker(method, log_level="debug").rerank("q", ["a"], floor=0.5).report
    assert report.status == "unchanged"


def test_unknown_score_kind_of_a_judgement_is_refused():
    method = Judging(Judgement([7.0], score_kind="stars"))
    report = Reranker(method, log_level="debug").rerank("q", ["a"]).report
    assert (report.status, report.issues[0].code) == ("unchanged", "method_failed")


# ---------------------------------------------------------------------- missing retrieval scores


@pytest.mark.parametrize(
    ("normalize", "optional", "scores", "positions"),
    [
        ("none", False, (None, None), ()),
        ("none", True, (None, None), None),
        ("none", True, (None, 0.5), (0,)),
        ("minmax", False, (None, None), None),
        ("zscore", False, (None, None), None),
        ("rrf", False, (None, None), None),
        ("minmax", False, (None, 0.5), (0,)),
        ("minmax", True, (None, 0.5), (0,)),
        ("minmax", False, (0.5, 0.5), None),
    ],
)
def test_missing_retrieval_scores_are_reported_once(normalize, optional, scores, positions):
    blend = {"original": 0.5, "normalize": normalize, "optional": optional}
    given = [Candidate("a", score=scores[0]), Candidate("b", score=scores[1])]
    scorer = InOrder([0.1, 0.2], score_kind="probability")
    issues = Reranker(scorer, blend=blend).rerank("q", given).report.issues
    assert [(issue.code, issue.positions) for issue in issues] == (
        [] if positions is None else [("original_missing", positions)]
    )


def test_the_input_order_takes_the_place_of_missing_scores():
    """Ranks count scored candidates only."""
    reranker = Reranker(
        InOrder([None, 0.5, 0.5, 0.4]),
        blend={"original": 0.5, "normalize": "minmax"},
        log_level="debug",
    )
    ranking = reranker.rerank("q", list("abcd"))
    assert ranking.order == (1, 2, 3, 0)
    assert [item.final_score for item in ranking] == pytest.approx([1.0, 0.625, 0.0, None])


# ---------------------------------------------------------------------- weight of the original


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
    method = Judging(Judgement(SCORES, issues=[WEIGHED], original=weight))
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


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(("normalize", "kind"), [("none", "probability"), ("sigmoid", "logit")])
def test_a_weight_without_retrieval_scores_is_that_of_the_order(normalize, kind, optional):
    """These blends need scores and have none, so it is as without a blend."""
    method = Judging(Judgement(SCORES, original=0.6))
    method.score_kind = kind
    blend = {"original": 0.2, "normalize": normalize, "optional": optional}
    ranking = Reranker(method, blend=blend, floor=0.9, log_level="debug").rerank("q", list("abc"))
    without = Reranker(method, floor=0.9, log_level="debug").rerank("q", list("abc"))
    assert [item.final_score for item in ranking] == [item.final_score for item in without]
    assert (ranking.order, ranking.report.status) == ((0, 1, 2), "degraded")
    assert ranking.report.issues == without.report.issues
    assert [issue.code for issue in ranking.report.issues] == ["floor_not_applied"]


@pytest.mark.parametrize(
    ("weight", "blend", "left", "codes"),
    [
        (0.6, None, {}, ["floor_not_applied"]),
        (0.6, {"original": 0.2}, {"floor": (0,)}, []),
        (1.0, None, {}, []),
    ],
)
def test_floor_with_a_weight_of_the_original_order(weight, blend, left, codes):
    """Without a blend of its own, it was set for scores on another scale."""
    method = Judging(Judgement(SCORES, original=weight))
    report = Reranker(method, blend=blend, floor=0.6, log_level="debug").rerank("q", LEVELS).report
    assert (report.left_out, [issue.code for issue in report.issues]) == (left, codes)


def test_kept_order_is_ordered_by_metadata():
    ranking = Reranker(
        Judging(Judgement([None] * 3, original=1.0)), order=TIERS, log_level="debug"
    ).rerank("q", LEVELS)
    assert ranking.order == (1, 2, 0)


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan"), "1"])
def test_weights_outside_their_range_are_refused(weight):
    method = Judging(Judgement(SCORES, original=weight))
    report = Reranker(method, log_level="debug").rerank("q", LEVELS).report
    assert report.status == "unchanged"
    code = "method_failed" if weight == "1" else "original_invalid"
    assert [issue.code for issue in report.issues] == [code]


# ---------------------------------------------------------------------- spans


def test_spans_of_scored_candidates():
    candidates = [
        Candidate("one two", metadata={"page": 1}),
        Candidate(None),
        Candidate("three"),
        Candidate("four"),
    ]
    spans = [(4, 7), (0, 5), None]
    method = Judging(Judgement([0.1, None, 0.3], frozenset({1}), spans=spans))
    ranking = Reranker(method, log_level="debug").rerank("q", candidates)
    assert {item.position: item.span for item in ranking} == {0: (4, 7), 1: None, 2: None, 3: None}
    (found,) = [item for item in ranking if item.span]
    assert found.metadata == {"page": 1, "rerank_score": 0.1, "rerank_span": [4, 7]}
    assert not any("rerank_span" in item.metadata for item in ranking if not item.span)


def test_the_span_of_an_earlier_pass_does_not_stay():
    candidates = [Candidate("one", metadata={"rerank_span": [0, 2]}) for _ in range(3)]
    method = Judging(Judgement([0.1, 0.2, None], spans=[(0, 1), None, None]))
    ranking = Reranker(method, log_level="debug").rerank("q", candidates)
    by_position = {item.position: item.metadata["rerank_span"] for item in ranking}
    assert by_position == {0: [0, 1], 1: None, 2: None}
    assert candidates[0].metadata == {"rerank_span": [0, 2]}


def test_spreads():
    candidates = [
        Candidate("one", metadata={"rerank_spread": 0.9}),
        Candidate(None),
        Candidate("two", metadata={"rerank_spread": 0.9}),
        Candidate("three"),
    ]
    method = Judging(Judgement([0.1, 0.2, 0.3], spreads=[0.5, None, 0.0]))
    ranking = Reranker(method, log_level="debug").rerank("q", candidates)
    assert {item.position: item.spread for item in ranking} == {0: 0.5, 1: None, 2: None, 3: 0.0}
    by_position = {item.position: item.metadata for item in ranking}
    assert by_position[0]["rerank_spread"] == 0.5
    assert "rerank_spread" not in by_position[1]
    assert by_position[2]["rerank_spread"] is None
    assert by_position[3] == {"rerank_score": 0.3, "rerank_spread": 0.0}
    assert "  spread     0.5 between its scores" in str(ranking.explain(position=0))
    assert "spread" not in str(ranking.explain(position=2))
    assert ranking.explain(position=0).to_dict()["spread"] == 0.5
    assert list(ranking.to_dict()["ranking"][0])[-2:] == ["spread", "probability"]


@pytest.mark.parametrize("render", [{"prefix": "passage: "}, {"fields": ["page", "text"]}])
def test_no_span_where_other_fields_were_rendered(render):
    method = Judging(Judgement([0.5], spans=[(0, 1)]))
    ranking = Reranker(method, render=render).rerank("q", [Candidate("one", metadata={"page": 1})])
    assert (ranking[0].status, ranking[0].span) == ("scored", None)


@pytest.mark.parametrize("spans", [[], [None], [(0, 1)] * 3, [(0, 2), None], [(1, 1), None]])
def test_spans_that_are_not_of_the_texts_are_refused(spans):
    method = Judging(Judgement([0.1, 0.2], spans=spans))
    report = Reranker(method, log_level="debug").rerank("q", ["a", "b"]).report
    assert (report.status, report.issues[0].code) == ("unchanged", "span_invalid")


# ---------------------------------------------------------------------- logging


def heard(caplog, reranker, texts):
    caplog.clear()
    caplog.set_level(logging.DEBUG, "secondpass")
    reranker.rerank("q", texts)
    return [record.levelname for record in caplog.records]


def test_recovered_errors_of_an_ok_ranking_are_logged_at_debug(caplog):
    busy = LLMError("busy", "server_error", retryable=True)
    repaired = Graded(Model([always("no JSON"), graded]))
    assert heard(caplog, Reranker(repaired), numbered([1, 2])) == ["DEBUG"]
    retried = Graded(Model([always(busy), graded]))
    assert heard(caplog, Reranker(retried), numbered([1, 2])) == ["DEBUG"]
    partial = Graded(Model([always("no JSON"), graded]), batch_size=1)
    reranker = Reranker(partial, limits={"repair": 0})
    assert heard(caplog, reranker, numbered([1, 2])) == ["WARNING"]


def test_ordering_that_was_not_followed_is_logged_as_configured(caplog):
    reranker = Reranker(ByTable(), order=lambda items: items[:1])
    assert heard(caplog, reranker, ["a", "bb"]) == ["WARNING"]


def test_method_error_keeps_its_code():
    def no(count):
        raise MethodError("not today", "closed")

    report = Reranker(Answering(no), log_level="debug").rerank("q", ["a"]).report
    assert [(issue.code, issue.message) for issue in report.issues] == [("closed", "not today")]


# ---------------------------------------------------------------------- what the report says


class Plain:
    """A method without a text of its own in the report: it gives a judgement with issues."""

    name, score_kind, scale = "plain", "grade", (0.0, 4.0)

    def judge(self, task):
        own = Issue("own", "as it was", (0,))
        named = Issue("named", "likewise", (), (), "inner")
        return Judgement([1.0] * len(task.texts), issues=[own, named])
        yield


SCORED = [Candidate("a", id="a", score=0.4), Candidate("b", id="b", score=0.2)]
REPORTS = [
    # settings, candidates, the one issue of this code: (code, message, positions, method)
    (
        {"method": Answering(lambda count: None), "floor": 9.0, "fallback": [ByTable()]},
        SCORED,
        (
            "floor_not_applied",
            "the floor applies to the method only; this fallback has no floor",
            (),
            "by-table",
        ),
    ),
    (
        {"method": ByTable(), "render": {"fields": ["text", "title", "tags"]}},
        SCORED,
        (
            "field_missing",
            "no candidate has these fields of render: 'title', 'tags'",
            (),
            None,
        ),
    ),
    (
        {"method": ByTable()},
        [Candidate("a"), Candidate(None)],
        ("no_text", "there is nothing of these to show to a method", (1,), None),
    ),
    ({"method": Plain()}, SCORED, ("own", "as it was", (0,), "plain")),
    ({"method": Plain()}, SCORED, ("named", "likewise", (), "inner")),
    (
        {"method": ByTable(), "blend": {"original": 0.5, "normalize": "minmax"}},
        [Candidate("a", score=0.4), Candidate("b")],
        (
            "original_missing",
            "no retrieval score to blend; the final score is the method's alone",
            (1,),
            None,
        ),
    ),
    (
        {"method": InOrder([0.5], score_kind="probability"), "blend": {"original": 0.5}},
        [Candidate("a", score=7)],
        (
            "original_out_of_range",
            "retrieval scores outside 0 to 1 were blended as they are",
            (0,),
            None,
        ),
    ),
    (
        {"method": ByTable(), "order": lambda items: 1 / 0},
        SCORED,
        ("order_failed", "the ordering raised ZeroDivisionError", (), None),
    ),
    (
        {"method": ByTable(), "order": lambda items: []},
        SCORED,
        ("order_refused", "the ordering lost, repeated or added items", (), None),
    ),
    (
        {"method": Answering(lambda count: None), "order": TIERS},
        SCORED,
        (
            "order_applied_unjudged",
            "nothing was judged; the ordering was applied to the input order",
            (),
            None,
        ),
    ),
    (
        {"method": Judging(Judgement([7.0, 1.0], score_kind="logit")), "floor": 0.5},
        SCORED,
        (
            "score_out_of_range",
            "the scores are of kind 'logit', but blend or floor are set for 'probability'",
            (),
            "judging",
        ),
    ),
]


@pytest.mark.parametrize(
    ("settings", "given", "expected"), REPORTS, ids=[row[2][0] for row in REPORTS]
)
def test_issue_says_what_happened_and_where(settings, given, expected):
    ranking = Reranker(**settings, log_level="debug").rerank("the query", given)
    (issue,) = [one for one in ranking.report.issues if one.code == expected[0]]
    assert (issue.code, issue.message, issue.positions, issue.method) == expected
    assert issue.ids == tuple(given[at].id for at in issue.positions)
    assert ranking.query == "the query"
    assert ranking.report.seconds > 0


def test_grades_are_blended_on_their_scale():
    reranker = Reranker(Plain(), blend={"original": 0.5})
    ranking = reranker.rerank("q", [Candidate("a", score=0.5)])
    assert ranking[0].final_score == 0.5 * 0.5 + 0.5 * 0.25


def test_items_of_a_plain_method_have_no_stage_scores():
    ranking = Reranker(ByTable()).rerank("q", ["a", "bb"], depth=1)
    assert [item.stage_scores for item in ranking] == [(), ()]
    assert [item.status for item in ranking] == ["scored", "tail"]


def test_backfilled_candidates_and_those_beyond_a_method_stand_last():
    judgement = Judgement([None, 0.5, None, None], frozenset({2}), beyond=frozenset({0}))
    ranking = Reranker(Judging(judgement), log_level="debug").rerank("q", list("abcd"))
    assert [(item.text, item.status) for item in ranking] == [
        ("b", "scored"),
        ("c", "unjudged"),
        ("d", "backfilled"),
        ("a", "tail"),
    ]


def test_laying_out_concerns_only_what_is_returned():
    reranker = Reranker(ByTable(), order="lost_in_the_middle")
    texts = ["a" * length for length in range(6, 0, -1)]
    assert reranker.rerank("q", texts, top_k=3).order == (0, 2, 1)
    assert reranker.rerank("q", texts, top_k=3).report.left_out == {"top_k": (3, 4, 5)}


# ---------------------------------------------------------------------- what the method is given


def test_candidates_without_text_are_not_shown():
    given = []

    class Noting(Judging):
        def judge(self, task):
            given.append((list(task.texts), [one.id for one in task.candidates]))
            return Judgement([0.1, 0.2])
            yield

    candidates = [Candidate("a", id="x"), Candidate(None, id="y"), Candidate("b", id="z")]
    ranking = Reranker(Noting(None), log_level="debug").rerank("q", candidates)
    assert given == [(["a", "b"], ["x", "z"])]
    assert [(item.position, item.rerank_score) for item in ranking] == [
        (2, 0.2),
        (0, 0.1),
        (1, None),
    ]
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions, issue.ids) == ("no_text", (1,), ("y",))


def test_no_candidates_are_no_issue():
    reranker = Reranker(Judging(None), render={"fields": ["title"]}, order=TIERS, strict=True)
    report = reranker.rerank("q", []).report
    assert (report.status, report.issues) == ("ok", ())

"""Cascades: stages of scorers and of methods that ask, alone, nested and many at once."""

import pytest

from fakes import (
    Answering,
    ByTable,
    Judging,
    Model,
    always,
    graded,
    judge,
    number_of,
    numbered,
    raising,
    shown_in,
)
from secondpass import ConfigurationError, MethodError, Reranker, RerankError, config
from secondpass.effects import Judgement
from secondpass.errors import LLMError
from secondpass.ranking.methods import to_method
from secondpass.strategies.cascade import Cascade, CascadeStage
from secondpass.strategies.graded import Graded
from secondpass.types import Issue

DOWN = LLMError("the server failed", "server_error")


def by_number(texts):
    """A scorer that judges as an honest model would."""
    return ByTable({text: float(number_of(text)) for text in texts})


def against_number(texts):
    return ByTable({text: -float(number_of(text)) for text in texts})


def cascade(*stages):
    """A cascade of (method, depth) pairs."""
    return Cascade([CascadeStage(method, depth) for method, depth in stages])


# ---------------------------------------------------------------------- order and scores


def test_later_stages_stand_first():
    texts = numbered([3, 9, 5, 7, 1])
    model = Model()
    method = cascade((against_number(texts), 4), (Graded(model), 2))
    ranking = Reranker(method, depth=4).rerank("q", texts)
    # The first stage judges 3, 9, 5, 7 and prefers low numbers; the second is shown 3 and 5.
    assert list(shown_in(model.prompts[0]).values()) == ["3 wombats", "5 wombats"]
    assert ranking.order == (2, 0, 3, 1, 4)
    assert [item.stage_scores for item in ranking] == [(-5, 5), (-3, 3), (-7,), (-9,), ()]
    assert [item.rerank_score for item in ranking] == [1.0, 0.75, 0.5, 0.25, None]
    assert [item.status for item in ranking] == ["scored"] * 4 + ["tail"]
    report = ranking.report
    assert (report.status, report.score_kind, report.issues) == ("ok", "rank", ())
    assert report.method == "by-table, then graded by model"
    assert (report.usage.calls, report.usage.rounds, report.usage.pairs) == (2, 2, 6)


def test_what_a_stage_leaves_alone_stays_so_unless_another_one_scores_it():
    alone, both = (Judging(Judgement([None] * n, beyond=frozenset(range(n)))) for n in (1, 2))
    judgement, _ = judge(cascade((alone, None), (alone, 1), (Judging(Judgement([1.0])), 1)), ["a"])
    assert (list(judgement.scores), judgement.beyond) == ([1.0], frozenset())
    judgement, _ = judge(cascade((both, 2), (alone, 1)), ["a", "b"])
    assert judgement.beyond == {0, 1}
    # What another stage failed to judge was not left alone.
    failing = Judging(MethodError("it is shut", "shut"))
    with pytest.raises(MethodError, match="it is shut"):
        judge(cascade((failing, None), (alone, None)), ["a"])


# ---------------------------------------------------------------------- errors

FAILING = {
    "raises": Answering(raising(RuntimeError("sk-secret"))),
    "none": Answering(lambda n: None),
    "a model that is down": Graded(Model(always(DOWN))),
}


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_failed_stage_is_skipped(failing, place):
    texts = numbered([3, 9, 5, 7])
    stages = [(by_number(texts), 4), (by_number(texts), 3)]
    stages.insert(place, (FAILING[failing], [4, 4, 2][place]))
    ranking = Reranker(cascade(*stages), log_level="debug").rerank("q", texts)
    assert ranking.order[0] == 1
    report = ranking.report
    assert (report.status, report.degraded_by) == ("degraded", ("stage",))
    assert report.issues
    assert all(item.status == "scored" for item in ranking)
    assert "sk-secret" not in repr(report)
    with pytest.raises(RerankError):
        Reranker(cascade(*stages), strict=True, log_level="debug").rerank("q", texts)


def test_a_stage_that_judged_a_part_costs_no_candidate_its_place():
    texts = numbered([9, 8, 7, 6, 5, 4])

    def last_batch_only(passages):
        return DOWN if "4 wombats" in passages.values() else graded(passages)

    model = Model([last_batch_only])
    stages = (against_number(texts), None), (Graded(model, batch_size=2), 4)
    ranking = Reranker(cascade(*stages), log_level="debug").rerank("q", texts)
    # 4 to 9 by the first stage; of its best four, the second graded only 6 and 7.
    assert ranking.report.degraded_by == ("stage",)
    assert [number_of(item.text) for item in ranking] == [4, 5, 7, 6, 8, 9]
    assert [len(item.stage_scores) for item in ranking] == [1, 1, 2, 2, 1, 1]


# ---------------------------------------------------------------------- weight of the input order


UP = {"3": 1.0, "9": 2.0, "5": 3.0, "7": 4.0}
KEEP = Judging(Judgement([], issues=[Issue("hard", "to read", (0,))], original=1.0))


class Leaning(Judging):
    """Prefers its last texts, and gives its input order a weight."""

    def judge(self, task):
        scores = [float(index) for index in range(len(task.texts))]
        return Judgement(scores, original=self.judgement)
        yield


WEIGHED = {
    # stages and their depths; order, stages that scored each in this order
    "keep, then score": ([(KEEP, None), (ByTable(UP), 2)], (1, 0, 2, 3), [1, 1, 0, 0]),
    "score, then keep": ([(ByTable(UP), None), (KEEP, 2)], (3, 2, 1, 0), [1, 1, 1, 1]),
    # Blended: 1/rank is 1, 1/2, 1/3, 1/4, by minmax 1, 1/3, 1/9, 0; the scores are 0, 1/3, 2/3, 1.
    "first stage": ([(Leaning(0.5), None), (KEEP, 1)], (0, 3, 2, 1), [1, 1, 1, 1]),
    "heavier": ([(Leaning(0.9), None), (KEEP, 1)], (0, 1, 2, 3), [1, 1, 1, 1]),
    "after a stage": ([(ByTable(UP), None), (Leaning(0.6), 2)], (3, 2, 1, 0), [2, 2, 1, 1]),
    "after a stage, light": ([(ByTable(UP), None), (Leaning(0.4), 2)], (2, 3, 1, 0), [2, 2, 1, 1]),
}


@pytest.mark.parametrize(("stages", "order", "counts"), WEIGHED.values(), ids=WEIGHED)
def test_weight_of_the_input_order(stages, order, counts):
    """Retrieval scores do not count: the order that a stage is given does."""
    texts = [{"text": text, "score": float(index)} for index, text in enumerate("3957")]
    ranking = Reranker(cascade(*stages), log_level="debug").rerank("q", texts)
    assert ranking.order == order
    assert [len(item.stage_scores) for item in ranking] == counts
    assert [item.status == "scored" for item in ranking] == [bool(count) for count in counts]
    assert ranking.report.status == "degraded"
    assert "original" in ranking.report.degraded_by
    with pytest.raises(RerankError):
        Reranker(cascade(*stages), strict=True, log_level="debug").rerank("q", texts)


@pytest.mark.parametrize(
    "other", [KEEP, Answering(lambda n: None), Graded(Model(), judge_single=False)]
)
@pytest.mark.parametrize("first", [True, False])
def test_order_is_kept_if_no_stage_scores(other, first):
    stages = [(KEEP, 1), (other, 1)]
    method = cascade(*(stages if first else reversed(stages)))
    ranking = Reranker(method, fallback=["lexical"], log_level="debug").rerank("q", list("357"))
    assert (ranking.order, ranking.report.status) == ((0, 1, 2), "unchanged")
    assert {item.status for item in ranking} == {"unjudged"}
    assert "hard" in {issue.code for issue in ranking.report.issues}


def test_an_error_counts_although_another_stage_had_nothing_to_do():
    """One candidate is not judged by a model that orders."""
    stages = [
        (Judging(MethodError("down", "model_not_loaded")), 1),
        (Graded(Model(), judge_single=False), 1),
    ]
    ranking = Reranker(cascade(*stages), log_level="debug").rerank("q", ["3"])
    assert [issue.code for issue in ranking.report.issues] == ["model_not_loaded"]


def test_the_span_of_the_last_stage_that_has_one():
    first = Judging(Judgement([1.0, 2.0, 3.0], spans=[(0, 1), (1, 2), None]))
    last = Judging(Judgement([2.0, 1.0], spans=[(1, 2), None]))
    ranking = Reranker(cascade((first, None), (last, 2))).rerank("q", ["ab", "cd", "ef"])
    assert {item.text: item.span for item in ranking} == {"ef": (1, 2), "cd": (1, 2), "ab": (0, 1)}


# ---------------------------------------------------------------------- settings

DEPTHS = [
    ([10, 20], r"stages\[1\].depth: must be 10 at most"),
    ([10, None], r"stages\[1\].depth: must be 10 at most"),
    ([None, 10, 11], r"stages\[2\].depth: must be 10 at most"),
    ([20, 10, None], r"stages\[2\].depth: must be 10 at most"),
]


@pytest.mark.parametrize(("depths", "message"), DEPTHS)
def test_depths_must_not_rise(depths, message):
    with pytest.raises(ConfigurationError, match=message):
        cascade(*((ByTable(), depth) for depth in depths))


WRONG = [
    ([], "stages"),
    ([{"type": "lexical"}], "stages"),
    ([{"type": "lexical", "depth": 0}, "lexical"], "depth"),
    ([{"type": "lexical", "depth": "3"}, "lexical"], "depth"),
    (["lexical", {"type": "nothing"}], "nothing"),
    (["lexical", 7], "stages"),
    ("lexical", "stages"),
    (["lexical", {"type": "graded", "depth": 2}], "llm"),
]


@pytest.mark.parametrize(("stages", "message"), WRONG)
def test_wrong_stages(stages, message):
    with pytest.raises(ConfigurationError, match=message):
        Reranker({"type": "cascade", "stages": stages})


# ---------------------------------------------------------------------- life


def test_warm_up_and_close():
    did = []

    def living(kind, name):
        parts = ("warm_up", "close")
        members = {part: lambda self, part=part: did.append((name, part)) for part in parts}
        return type("Living", (kind,), members)()

    stages = (living(ByTable, "scorer"), None), (Graded(living(Model, "model")), 2)
    reranker = Reranker(cascade(*stages))
    reranker.warm_up()
    reranker.close()
    assert did == [(name, part) for part in ("warm_up", "close") for name in ("scorer", "model")]


def test_issues_of_stages():
    own = Issue("own", "as it was", (1,), ("b",))
    named = Issue("named", "likewise", (0,), (), "inner")
    stages = (Judging(Judgement([1.0, None], issues=[own, named])), 2)
    method = cascade(stages, (Answering(raising(MethodError("it is shut", "shut"))), 2))
    judgement, _ = judge(method, ["a", "b"])
    assert judgement.issues == [
        Issue("own", "as it was", (1,), ("b",), "judging"),
        Issue("named", "likewise", (0,), (), "inner"),
        Issue("shut", "this stage scored nothing: it is shut", (0, 1), (), "answering"),
    ]
    assert judgement.stage_scores == [(1.0,), ()]
    assert method.scale is None


def test_depths_are_dumped_beside_the_methods():
    stages = [{"type": "lexical", "depth": 5}, {"type": "lexical", "depth": 2}]
    reranker = Reranker({"type": "cascade", "stages": stages})
    assert config.dump(reranker)["method"]["stages"] == stages


# ---------------------------------------------------------------------- instruction of a call


def told(method, **options):
    """Which methods the report names as taking no instruction."""
    texts = numbered([3, 9, 5])
    report = Reranker(method, log_level="debug").rerank("q", texts, **options).report
    return [issue.method for issue in report.issues if issue.code == "instruction_not_used"]


class Instructed(ByTable):
    model_name = "instructed"
    takes_instruction = True

    def score_pairs(self, query, documents, *, instruction=None):
        return super().score_pairs(query, documents)


PLAIN, TAKES = ByTable(), Instructed()
FAILS = Answering(raising(OSError()))
ASKS = Graded(Model(graded))
ASKS_IN_VAIN = Graded(Model(always("no")))

UNUSED = {
    "no stage takes it": ([PLAIN, PLAIN], ["by-table", "by-table"]),
    "the last stage takes it": ([PLAIN, TAKES], []),
    "the first stage takes it": ([TAKES, PLAIN], []),
    "a model takes it": ([PLAIN, ASKS], []),
    "what takes it fails": ([PLAIN, ASKS_IN_VAIN], ["by-table"]),
    "what takes none fails": ([FAILS, TAKES], []),
    "nested": ([PLAIN, cascade((PLAIN, 2), (TAKES, 2))], []),
    "nested, none takes it": ([PLAIN, cascade((PLAIN, 2), (PLAIN, 2))], ["by-table"] * 3),
}


@pytest.mark.parametrize("case", UNUSED)
def test_an_instruction_that_no_stage_takes_is_reported(case):
    methods, unused = UNUSED[case]
    method = cascade(*((to_method(method), None) for method in methods))
    assert told(method, instruction="prefer owls") == unused
    assert told(method) == []

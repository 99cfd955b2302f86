"""Methods: what is taken for one, warmed up and closed; what a wrong judgement causes."""

import asyncio

import pytest

from fakes import ByTable, Judging, Model, raising
from secondpass import ConfigurationError, MethodError, Reranker
from secondpass.effects import Judgement
from secondpass.questions import ListScores
from secondpass.ranking.methods import asks, to_method
from secondpass.settings import registry
from secondpass.strategies.base import LLMStrategy
from secondpass.strategies.cascade import Cascade
from secondpass.strategies.graded import Graded
from secondpass.types import Issue


@pytest.mark.parametrize("name", registry.names("methods"))
def test_every_kind_of_method_says_whether_it_takes_an_instruction(name):
    """Whether by a member of the class, or by its settings."""
    kind = registry.kind("methods", name)
    takes = getattr(kind, "takes_instruction", False)
    if issubclass(kind, LLMStrategy) or name == "cascade":
        assert takes is True
    else:
        assert isinstance(takes, property) == (name in {"endpoint", "decisions", "cross_encoder"})
        assert takes is not True


@pytest.mark.parametrize("method", [ByTable, 5, None, object(), lambda query, documents: []])
def test_what_is_no_method_is_refused(method):
    with pytest.raises(ConfigurationError, match="method: give a"):
        Reranker(method)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("name", None, "a method needs a 'name'"),
        ("score_kind", None, "score_kind: None is not a score kind"),
        ("scale", ..., "a method needs a 'scale'"),
        *(("windows", value, "must be 'one', 'each' or 'task'") for value in ("all", None, 3)),
    ],
)
def test_a_method_with_a_wrong_member_is_refused(name, value, message):
    members = {"name": "own", "score_kind": "logit", "scale": None, "judge": lambda self, task: 0}
    own = {key: item for key, item in {**members, name: value}.items() if item is not ...}
    with pytest.raises(ConfigurationError, match=message):
        Reranker(type("Own", (), own)())


def test_warm_up_and_close_reach_the_scorer_and_a_fallback_only_if_need_be():
    told: list[str] = []

    def scorer(name):
        return ByTable(
            warm_up=lambda: told.append(name), close=lambda: told.append(f"close {name}")
        )

    reranker = Reranker(scorer("a"), fallback=[scorer("b")])
    reranker.warm_up()
    reranker.close()
    assert told == ["a", "close a", "close b"]
    told.clear()
    broken = ByTable(warm_up=lambda: raising(MethodError("no"))(0))
    asyncio.run(Reranker(broken, fallback=[scorer("b")]).awarm_up())
    assert told == ["b"]
    with pytest.raises(MethodError, match="no"):
        Reranker(broken).warm_up()


def test_what_asks_a_language_model():
    llm = Model()
    asking = Cascade([{"method": to_method(ByTable())}, {"method": Graded(llm)}])
    assert asking.language_models == [llm]
    assert asks(asking)
    assert not any(map(asks, (to_method(ByTable()), object())))


# ---------------------------------------------------------------------- judgements


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Judgement([1.0]), "score_count"),
        (Judgement([None, None]), "nothing_judged"),
        (Judgement([float("nan"), 1.0]), "score_not_finite"),
        (Judgement(["z", 1.0]), "score_not_finite"),  # type: ignore[list-item]
        (Judgement([1.0, 2.0], stage_scores=[()]), "stage_score_count"),
        (Judgement([1.0, 2.0], degraded_by=["chance"]), "degraded_by_invalid"),  # type: ignore[list-item]
        (Judgement([1.0, 2.0], issues=[Issue("a", "b", (7,))]), "unknown_position"),
        (Judgement([1.0, 2.0], issues=[Issue("a", "b", (0.5,))]), "unknown_position"),  # type: ignore[arg-type]
        (Judgement([1.0, 2.0], frozenset({2})), "unknown_position"),
        (Judgement([1.0, 2.0], beyond=frozenset({-1})), "unknown_position"),
        (Judgement([1.0, 2.0], beyond=None), "method_failed"),  # type: ignore[arg-type]
        (Judgement([1.0, 2.0], original=1.5), "original_invalid"),
        (Judgement([1.0, 2.0], spans=[(0, 1)]), "span_invalid"),
        (Judgement([1.0, 2.0], spans=[(0, 2), None]), "span_invalid"),
        (Judgement([1.0, 2.0], spans=[[0, 1], None]), "span_invalid"),
        (Judgement([1.0, 2.0], pieces=[[(0, 1, 0.5)]]), "span_invalid"),
        (Judgement([1.0, 2.0], pieces=[[(0, 1000, 0.5)], None]), "span_invalid"),
        (Judgement([1.0, 2.0], order_scores=[1.0]), "score_not_finite"),
        (Judgement([1.0, None], order_scores=[1.0, 2.0]), "score_not_finite"),
        (Judgement([1.0, 2.0], order_scores=[1.0, float("inf")]), "score_not_finite"),
        (None, "method_failed"),
        (ValueError("secret"), "method_failed"),
        (MethodError("told", "own_code"), "own_code"),
    ],
)
def test_wrong_judgements(answer, code):
    """A method is anything with ``judge``; a wrong one must not lose candidates either."""
    ranking = Reranker(Judging(answer)).rerank("q", ["a", "b"])
    assert ranking.order == (0, 1)
    assert ranking.report.issues[0].code == code


def test_what_is_no_effect_is_refused():
    class Own(Judging):
        def judge(self, task):
            yield "something"

    ranking = Reranker(Own(None), fallback=["lexical"]).rerank("b", ["a", "b"])
    assert ranking.order == (1, 0)
    assert ranking.report.issues[0].code == "unknown_effect"


class Instructed(ByTable):
    """Scores a text by its table, and keeps the instructions that it was given."""

    model_name = "instructed"
    takes_instruction = True

    def __init__(self):
        super().__init__()
        self.instructions = []

    def score_pairs(self, query, documents, *, instruction=None):
        self.instructions.append(instruction)
        return super().score_pairs(query, documents)


class InstructedInBatches(Instructed):
    def score_many(self, requests, *, instruction=None):
        self.instructions.append(instruction)
        return [ByTable.score_pairs(self, *request) for request in requests]

    def score_batches(self, requests, deadline, *, instruction=None):
        self.instructions.append(instruction)
        yield [(0, index, 1.0) for index in range(len(requests[0][1]))]


class InstructedInLists(Instructed):
    def score_lists(self, requests, deadline, *, instruction=None):
        self.instructions.append(instruction)
        yield [ListScores([1.0] * len(documents)) for _, documents in requests]


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("kind", [Instructed, InstructedInBatches, InstructedInLists])
def test_scorers_that_take_an_instruction(kind, timed):
    scorer = kind()
    reranker = Reranker(scorer, limits={"deadline": 60} if timed else None)
    rankings = [reranker.rerank("q", ["a", "b"], instruction=" prefer owls ")]
    rankings += reranker.rerank_many([("q", ["a"]), ("r", ["b"])], instruction="prefer owls")
    rankings.append(asyncio.run(reranker.arerank("q", ["a"], instruction="prefer owls")))
    assert all(ranking.report.issues == () for ranking in rankings)
    assert set(scorer.instructions) == {"prefer owls"}
    scorer.instructions.clear()
    for instruction in (None, "", " "):
        assert reranker.rerank("q", ["a"], instruction=instruction).report.issues == ()
    assert set(scorer.instructions) == {None}


class Raising(ByTable):
    @property
    def takes_instruction(self):
        raise OSError


@pytest.mark.parametrize(
    "scorer", [ByTable(takes_instruction=value) for value in (False, None, 1, "yes")] + [Raising()]
)
def test_scorers_that_take_none_are_called_as_ever(scorer):
    report = Reranker(scorer).rerank("q", ["a", "bb"], instruction="prefer owls").report
    assert report.status == "ok"
    (issue,) = report.issues
    assert (issue.code, issue.method) == ("instruction_not_used", "by-table")
    assert issue.positions == ()

"""Scorers whose scores depend on the whole list: ``score_lists``."""

import math
import threading

import pytest

from batch_scorers import LATE, both, drive, ends, pass_of, raises, rerank, scores_of
from fakes import within_deadlines
from secondpass import Reranker
from secondpass.asking.partial_scores import LatestLists, read_lists
from secondpass.asking.scheduler import CallLists, PartialList
from secondpass.errors import DeadlineError, MethodError
from secondpass.questions import ListScores
from secondpass.types import Issue

ENDED = "not scored: the scorer found too little time left before the deadline of 60 s"


class InLists:
    """Yields what a function of the requests yields."""

    model_name = "in-lists"

    def __init__(self, generate):
        self.generate = generate
        self.calls = []

    def score_pairs(self, query, documents):
        raise AssertionError("score_lists is there")

    def score_lists(self, requests, deadline):
        self.calls.append((len(requests), deadline is not None))
        return self.generate(requests)


def positions(requests):
    """The scores of the first two documents, then those of all: the position, and their number."""
    for stop in (2, 10):
        counts = [min(stop, len(documents)) for _, documents in requests]
        yield [
            ListScores(
                [
                    float(count * 10 + index) if index < count else None
                    for index in range(len(texts))
                ]
            )
            for count, (_, texts) in zip(counts, requests, strict=True)
        ]


timed = pytest.mark.parametrize("limits", [{}, {"deadline": 60}], ids=["untimed", "timed"])

# ---------------------------------------------------------------------- the scheduler


def drive_lists(passes, *outcomes):
    """The results of passes, and the number of documents of each request of each command."""
    remaining = iter(outcomes)
    results, commands = drive(passes, lambda _command: next(remaining))
    assert {type(command) for command in commands} == {CallLists}
    return results, [[len(texts) for _, texts in command.requests] for command in commands]


def test_lists_are_not_split_and_share_a_call_without_a_deadline():
    scorer = InLists(positions)
    listed = [PartialList(ListScores([1.0] * count), None) for count in (3, 5)]
    passes = [pass_of(scorer, 3), pass_of(scorer, 5)]
    raws, requests = drive_lists(passes, listed)
    assert requests == [[3, 5]]
    assert [raw.values for raw in raws] == [[1.0] * 3, [1.0] * 5]
    assert [(item.ledger.calls, item.ledger.pairs) for item in passes] == [(1, 3), (1, 5)]
    limits = {"deadline": 60}
    passes = [pass_of(scorer, 3, **limits), pass_of(scorer, 5, **limits)]
    assert drive_lists(passes, listed[:1], listed[1:])[1] == [[3], [5]]


def test_each_list_is_tried_alone_after_a_failure():
    scorer, error = InLists(positions), MethodError("why", "code")
    partial = PartialList(ListScores([None, 1.0, None]), error)
    raws, requests = drive_lists([pass_of(scorer), pass_of(scorer)], error, [partial], error)
    assert requests == [[3, 3], [3], [3]]
    assert [raw.failures for raw in raws] == [[(0, 1, error), (2, 3, error)], [(0, 3, error)]]
    assert {trouble.code for raw in raws for trouble in raw.troubles} == {"batch_failed"}


@pytest.mark.parametrize("original", [None, 1.0])
@pytest.mark.parametrize("error", [MethodError("why", "code"), DeadlineError("late")])
def test_an_error_after_all_texts_are_scored(original, error):
    """Of a list that keeps the original order, it does not matter which texts have scores."""
    scores = [1.0, 2.0, 3.0 if original is None else None]
    item = pass_of(InLists(positions), deadline=60)
    (raw,), _ = drive_lists([item], [PartialList(ListScores(scores, original=original), error)])
    assert raw.failures == []
    assert raw.troubles == ([error] if type(error) is MethodError else [])


# ---------------------------------------------------------------------- calls of scorers


@both
def test_scores_at_the_deadline_count(asynchronous):
    ended, closed = threading.Event(), threading.Event()

    def generate(requests):
        try:
            yield next(positions(requests))
            ended.wait(60)
            yield [ListScores([1.0] * 4)]
        finally:
            closed.set()

    ranking = within_deadlines(
        lambda deadline: rerank(asynchronous, InLists(generate), limits={"deadline": deadline}),
        lambda ranking: ranking.report.usage.pairs == 2,
    )
    ended.set()
    assert scores_of(ranking) == {0: 20.0, 1: 21.0}
    (issue,) = ranking.report.issues
    assert (issue.code, issue.positions) == ("deadline", (2, 3))
    assert LATE.fullmatch(issue.message)
    assert (ranking.report.status, ranking.report.usage.pairs) == ("partial", 2)
    assert closed.wait(60)


def first_then(act):
    """A generator that ends with ``act`` after the first lists."""

    def generate(requests):
        yield next(positions(requests))
        yield from act()

    return generate


WRONG_LENGTH = "returned 1 score for 4 texts"
GENERATORS = {
    # scored documents with and without a deadline; code and message of the issue
    "ends early": (first_then(ends), "deadline", ENDED),
    "exception": (first_then(raises(LookupError("sk-key"))), "scorer_raised", "LookupError"),
    "other length": (first_then(lambda: [[ListScores([1.0])]]), "score_count", WRONG_LENGTH),
    "numbers": (first_then(lambda: [[1.0]]), "scores_no_list", "a float, not ListScores"),
}
NOTHING = {
    "nothing": (lambda _: (), "yielded nothing"),
    "no generator": (lambda _: 1.0, "float, not a generator"),
    "no list": (lambda _: [None], "NoneType, not a list"),
}


@both
@timed
@pytest.mark.parametrize(("generate", "code", "message"), GENERATORS.values(), ids=GENERATORS)
def test_scores_so_far_are_kept(asynchronous, limits, generate, code, message):
    ranking = rerank(asynchronous, InLists(generate), limits=limits)
    assert scores_of(ranking) == {0: 20.0, 1: 21.0}
    (issue,) = ranking.report.issues
    assert issue.positions == (2, 3)
    assert "sk-key" not in issue.message
    if code == "deadline" and not limits:
        assert issue.code == "score_missing"
    else:
        assert issue.code == code
        assert message in issue.message


@both
@pytest.mark.parametrize(("generate", "message"), NOTHING.values(), ids=NOTHING)
def test_nothing_usable(asynchronous, generate, message):
    ranking = rerank(asynchronous, InLists(generate), limits={})
    (issue,) = ranking.report.issues
    assert (ranking.report.status, issue.code) == ("unchanged", "scores_no_list")
    assert message in issue.message


def test_rerank_many_gives_the_same():
    scorer = InLists(positions)
    requests = [("q", list("abcd")), ("r", []), ("s", list("ef"))]
    many = Reranker(scorer).rerank_many(requests)
    assert scorer.calls == [(2, False)]
    assert [scores_of(ranking) for ranking in many] == [
        scores_of(Reranker(scorer).rerank(*request)) for request in requests
    ]


# ---------------------------------------------------------------------- what lists may hold

GOOD = Issue("code", "message", (1,), (), "part")
ENDLESS = iter(int, 1)
EXTRAS = {
    # what is yielded; what is used of it; code and positions of an issue
    "weight": ({"original": 1}, {"original": 1.0}, None),
    "rounded weight": ({"original": 1.00001}, {"original": 1.0}, None),
    "large weight": ({"original": 1.5}, {}, ("original_invalid", ())),
    "infinite weight": ({"original": math.inf}, {}, ("original_invalid", ())),
    "no weight": ({"original": math.nan}, {}, ("original_invalid", ())),
    "boolean weight": ({"original": True}, {}, ("original_invalid", ())),
    "spans": ({"spans": [(0, 3), [1, 2]]}, {"spans": [(0, 3), (1, 2)]}, None),
    "some spans": ({"spans": (None, (0, 1))}, {"spans": [None, (0, 1)]}, None),
    "long span": ({"spans": [(0, 4), (0, 1)]}, {"spans": [None, (0, 1)]}, ("span_invalid", (0,))),
    "empty span": ({"spans": [(0, 1), (1, 1)]}, {"spans": [(0, 1), None]}, ("span_invalid", (1,))),
    "negative span": ({"spans": [None, (-1, 1)]}, {"spans": [None, None]}, ("span_invalid", (1,))),
    "float span": ({"spans": [None, (0.0, 1)]}, {"spans": [None, None]}, ("span_invalid", (1,))),
    "triple": ({"spans": [None, (0, 1, 2)]}, {"spans": [None, None]}, ("span_invalid", (1,))),
    "number": ({"spans": [None, 1]}, {"spans": [None, None]}, ("span_invalid", (1,))),
    "missing span": ({"spans": [(0, 1)]}, {}, ("span_invalid", ())),
    "endless spans": ({"spans": ENDLESS}, {}, ("span_invalid", ())),
    "no spans": ({"spans": 1}, {}, ("span_invalid", ())),
    "pieces": (
        {"pieces": [[(0, 1, 0.5), [1, 3, 2]], None]},
        {"pieces": [[(0, 1, 0.5), (1, 3, 2.0)], None]},
        None,
    ),
    "overlapping pieces": (
        {"pieces": [[(0, 2, 0.5), (1, 3, 0.5)], []]},
        {"pieces": [None, []]},
        ("span_invalid", (0,)),
    ),
    "long piece": (
        {"pieces": [[(0, 4, 1.0)], None]},
        {"pieces": [None] * 2},
        ("span_invalid", (0,)),
    ),
    "no score": ({"pieces": [[(0, 1)], None]}, {"pieces": [None] * 2}, ("span_invalid", (0,))),
    "infinite": (
        {"pieces": [None, [(0, 1, math.inf)]]},
        {"pieces": [None] * 2},
        ("span_invalid", (1,)),
    ),
    "a piece of pieces": ({"pieces": [1, None]}, {"pieces": [None] * 2}, ("span_invalid", (0,))),
    "missing pieces": ({"pieces": [[]]}, {}, ("span_invalid", ())),
    "issue": ({"issues": (GOOD,)}, {"issues": [GOOD]}, None),
    "unknown position": ({"issues": [Issue("c", "m", (2,))]}, {}, ("issue_invalid", ())),
    "other message": ({"issues": [Issue("c", None)]}, {}, ("issue_invalid", ())),
    "no issue": ({"issues": ["text"]}, {}, ("issue_invalid", ())),
    "no issues": ({"issues": None}, {}, ("issue_invalid", ())),
    "endless issues": ({"issues": ENDLESS}, {}, ("issue_invalid", ())),
}


@pytest.mark.parametrize(("extras", "used", "issue"), EXTRAS.values(), ids=EXTRAS)
def test_extras_are_validated(extras, used, issue):
    (result,) = read_lists([ListScores(["x", None], **extras)], [[3, 3]])
    assert result.scores == ["x", None]
    issues = list(used.get("issues", []))
    if issue is not None:
        assert [(found.code, found.positions) for found in result.issues] == [issue]
    else:
        assert result.issues == issues
    assert (result.original, result.spans) == (used.get("original"), used.get("spans"))
    assert result.pieces == used.get("pieces")


def test_lists_are_copied():
    scores, spans = [1.0], [(0, 1)]
    collected = LatestLists([("q", ["a"])])
    assert collected.add([ListScores(scores, spans=spans)])
    scores[0], spans[0] = 2.0, None
    (partial,) = collected.take()
    assert (partial.result.scores, partial.result.spans) == ([1.0], [(0, 1)])
    assert not collected.add([ListScores([3.0])])
    assert partial.result.scores == [1.0]


def ordered_by(order_scores, scores=(0.1, 0.9, 0.5)):
    def generate(requests):
        yield [ListScores(scores, order_scores=order_scores)]

    return InLists(generate)


def test_order_scores_decide_the_order_and_scores_are_compared_with_thresholds():
    blend = {"original": 0.0, "normalize": "minmax"}
    for settings in ({}, {"blend": blend}, {"floor": 0.5}):
        ranking = Reranker(ordered_by([3, 1, 2]), **settings).rerank("q", list("abc"))
        assert ranking.order == ((2, 1) if "floor" in settings else (0, 2, 1))
        finals = [1.0, 0.5, 0.0] if "blend" in settings else [3.0, 2.0, 1.0]
        assert [item.final_score for item in ranking] == finals[-len(ranking) :]
        assert ranking[-1].rerank_score == 0.9
        assert "; 1 in this list" in str(ranking.explain(position=1))
    cascade = {"type": "cascade", "stages": [ordered_by([3, 1, 2]), ordered_by([1], [0.9])]}
    cascade["stages"][1] = {"method": cascade["stages"][1], "depth": 1}
    ranking = Reranker(cascade).rerank("q", list("abc"))
    assert [item.stage_scores for item in ranking] == [(0.1, 0.9), (0.5,), (0.9,)]


@pytest.mark.parametrize(
    ("order_scores", "statuses", "codes"),
    [
        ([3, None, 2], ["scored", "scored", "backfilled"], ["score_missing"]),
        ([3, math.nan, 2], ["scored", "scored", "backfilled"], ["score_not_finite"]),
        ([3, 2], ["unjudged"] * 3, ["score_count"]),
        (5, ["unjudged"] * 3, ["scores_no_list"]),
        ([None] * 3, ["unjudged"] * 3, ["score_missing"]),
    ],
)
def test_a_text_without_an_order_score_is_not_scored(order_scores, statuses, codes):
    ranking = Reranker(ordered_by(order_scores), log_level="debug").rerank("q", list("abc"))
    assert [item.status for item in ranking] == statuses
    assert [issue.code for issue in ranking.report.issues] == codes

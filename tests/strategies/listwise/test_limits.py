"""Windows that limits leave out."""

import pytest

from fakes import Model, numbered, ranked, within_deadlines
from listwise_plans import judge, numbers_of
from secondpass import Reranker
from secondpass.strategies.listwise import Listwise

LEFT = [
    # rounds left before each window; where the windows start; what is passed over
    (lambda asked: None, [80, 70, 60, 50, 40, 30, 20, 10, 0], []),
    (lambda asked: 9 - asked, [80, 70, 60, 50, 40, 30, 20, 10, 0], []),
    (lambda asked: 100, [80, 70, 60, 50, 40, 30, 20, 10, 0], []),
    (lambda asked: 8 - asked, [70, 60, 50, 40, 30, 20, 10, 0], range(90, 100)),
    (lambda asked: 3 - asked, [20, 10, 0], range(40, 100)),
    (lambda asked: 1, [0], range(20, 100)),
    (lambda asked: 0, [0], range(20, 100)),
    # It turns out to be slower than the first window promised.
    (lambda asked: None if asked == 0 else 2 - asked, [80, 0], range(20, 100)),
]


@pytest.mark.parametrize(("rounds", "starts", "passed"), LEFT)
def test_last_are_skipped_without_rounds(rounds, starts, passed):
    texts = numbered(range(100, 0, -1))
    judgement, asks = judge(Listwise(Model()), texts, rounds=rounds)
    assert [100 - numbers_of(ask)[0] for ask in asks] == starts
    assert judgement.unjudged == set(passed)
    codes = [issue.code for issue in judgement.issues]
    assert codes == (["windows_not_joined"] if passed else [])
    # Those that were judged have the highest ranks, in order.
    judged = [index for index in range(100) if index not in passed]
    assert [judgement.scores[index] for index in judged] == [
        (100 - rank) / 100 for rank in range(len(judged))
    ]


def test_nothing_overtakes_a_gap():
    # The first window is asked before anything is known of its speed; then only one more fits in.
    # Those of the first were never compared with any but themselves.
    def rank(deadline):
        model = Model(ranked, seconds=deadline * 0.38)
        reranker = Reranker(Listwise(model), limits={"deadline": deadline}, log_level="debug")
        return model, reranker.rerank("q", numbered(range(100, 0, -1)))

    model, ranking = within_deadlines(rank, lambda result: len(result[0].prompts) == 2)
    assert len(model.prompts) == 2
    assert ranking.order == tuple(range(100))


def test_only_unjudged_are_reported_skipped():
    texts = numbered(range(100, 0, -1))
    judgement, _ = judge(Listwise(Model()), texts, rounds=lambda asked: 1 if asked else None)
    (issue,) = judgement.issues
    assert set(issue.positions) <= judgement.unjudged


LIMITS = [({"calls": 9}, 9, "ok"), ({"calls": 3}, 3, "partial"), ({"calls": 1}, 1, "partial")]


@pytest.mark.parametrize(("limits", "calls", "status"), LIMITS)
def test_few_calls_reach_the_top(limits, calls, status):
    model = Model(ranked)
    reranker = Reranker(Listwise(model), limits=limits, log_level="debug")
    ranking = reranker.rerank("q", numbered(range(100, 0, -1)))
    assert ranking.report.usage.calls == len(model.prompts) == calls
    assert ranking.report.status == status
    assert ranking[0].rerank_score == 1.0
    scored = 10 + 10 * calls
    assert [item.status for item in ranking] == ["scored"] * scored + ["unjudged"] * (100 - scored)

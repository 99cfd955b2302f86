from secondpass import Reranker
from secondpass_evaluation import compare
from topic_suites import SUITE, ByGrade, FirstIsBest, figures, suite_of


def test_order_sensitivity() -> None:
    rerankers = {"grade": Reranker(ByGrade()), "first": Reranker(FirstIsBest())}
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    found = compare(rerankers, suite, shuffles=3, measures=["nDCG@5"])
    steady, shaken = (found[f"given+{name}"].stability for name in rerankers)
    assert (steady.shuffles, steady.measure, len(steady.means)) == (3, "nDCG@5", 3)
    assert steady.overlap < 1.0  # of equal grades those that come first stand first
    assert abs(shaken.tau) < 0.3
    assert shaken.tau < steady.tau < 1.0
    assert shaken.overlap < steady.overlap
    assert len(set(shaken.means)) > 1
    assert found["given"].stability is None


def test_tail_keeps_its_place() -> None:
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    seen: list[list[str]] = []

    class Watching(ByGrade):
        def score_pairs(self, query: str, documents: list[str]) -> list[float]:
            seen.append(documents)
            return super().score_pairs(query, documents)

    found = compare({"x": Reranker(Watching(), depth=2)}, suite, shuffles=4)
    assert {frozenset(documents) for documents in seen} == {frozenset(seen[0])}
    assert len({tuple(documents) for documents in seen}) == 2
    first = compare({"x": Reranker(FirstIsBest(), depth=2)}, suite, shuffles=4)
    # Two that are now and then swapped; the 22 behind them would hide it.
    assert first["given+x"].stability.tau < 0.9
    assert found["given+x"].stability.shuffles == 4


def test_seed() -> None:
    suite = suite_of(candidates=dict.fromkeys(SUITE.queries, SUITE.corpus))
    one, again, other = (
        compare({"x": Reranker(FirstIsBest())}, suite, shuffles=2, seed=seed) for seed in (1, 1, 2)
    )
    assert figures(one) == figures(again)
    assert one["given+x"].stability != other["given+x"].stability

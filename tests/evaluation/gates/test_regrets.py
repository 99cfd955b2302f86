"""What queries lose without the pass."""

import numpy as np
import pytest

from secondpass import Candidate, InputError, Reranker
from secondpass.evaluation import make_suite
from secondpass.evaluation.gates.regrets import regrets_of, shares_saved

CANDIDATES = {
    # The relevant one is first, third, or missing.
    "first": [Candidate(text, f"d{i}", 9.0 - i) for i, text in enumerate(["b yes", "b", "b"])],
    "third": [Candidate(text, f"d{i}", 9.0 - i) for i, text in enumerate(["b", "b", "b yes"])],
    "none": [Candidate("b", f"d{i}") for i in range(3)],
}
QRELS = {"first": {"d0": 1}, "third": {"d2": 1}, "none": {"x": 1}}
SUITE = make_suite("made", dict.fromkeys(QRELS, "b"), QRELS, candidates=CANDIDATES)


class Right:
    model_name = "right"

    def score_pairs(self, query, documents):
        return [float("yes" in text) for text in documents]


def rankings(**settings):
    reranker = Reranker(Right(), **settings)
    return {query: reranker.rerank("b", items) for query, items in CANDIDATES.items()}


def regrets(rankings_, **options):
    settings = {"measure": "RR", "signals": ["margin", "words"], "depths": (0, 2, 3), **options}
    return regrets_of(SUITE, CANDIDATES, rankings_, **settings)


def test_regret_is_what_the_pass_gains():
    found = regrets(rankings())
    assert found.of_skip[0].tolist() == pytest.approx([0, 1 - 1 / 3, 0])
    assert found.of_skip[2].tolist() == pytest.approx([0, 1 - 1 / 3, 0])
    assert found.of_skip[3].tolist() == [0, 0, 0]
    assert found.pairs.tolist() == [3, 3, 3]
    assert (found.measure, found.relevant, found.outside) == ("RR", True, None)
    assert regrets(rankings(depth=2), depths=(0,)).pairs.tolist() == [2, 2, 2]


def test_a_signal_may_not_be_known():
    found = regrets(rankings())
    assert np.isnan(found.signals["margin"]).tolist() == [False, False, True]
    assert (found.known("margin"), found.known("words")) == (2, 3)


def test_part_of_the_queries():
    part = regrets(rankings()).part(np.array([1, 1]))
    assert part.of_skip[0].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert (len(part.pairs), part.known("margin"), part.measure) == (2, 2, "RR")


def test_measures_beyond_0_and_1_are_noted():
    assert regrets(rankings(), measure="NumRet").outside == 3.0
    assert not regrets(rankings(), measure="P(rel=2)@1").relevant


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": rankings()["none"]}, "the query 'x' is not in the suite"),
        (rankings(top_k=2), r"rankings\['first'\]: must hold each candidate once"),
        (rankings(when={"words": {"below": 1}}), "was made with a gate"),
    ],
    ids=["query", "cut", "gate"],
)
def test_other_rankings_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        regrets(given)


@pytest.mark.parametrize(
    ("skips", "depth", "share"),
    [([True, True], 0, 1.0), ([True, False], 0, 0.25), ([False, True], 4, 0.25),
     ([True, True], 9, 0.0), ([False, False], 0, 0.0)],
)  # fmt: skip
def test_shares_saved(skips, depth, share):
    assert shares_saved(np.array(skips), np.array([2, 6]), depth) == share


def test_no_pairs_are_saved_of_none():
    assert shares_saved(np.array([True]), np.array([0]), 0) == 0.0

"""What calibration learns from, and whether a score finds lists without anything relevant."""

import numpy as np
import pytest

from secondpass import Reranker
from secondpass.evaluation.calibration.samples import Sample, samples, separation


def sample(scores, *relevant):
    flags = np.array([index in relevant for index in range(len(scores))])
    return Sample(np.array(scores, float), np.array(scores, float), flags)


def test_scores_of_rankings():
    ranking = Reranker("lexical").rerank(
        "owl", [{"id": "a", "text": "an owl"}, {"id": "b", "text": "x"}]
    )
    failed = Reranker("lexical").rerank("owl", [])
    found, notes = samples(
        {"q": ranking, "r": failed}, {"q": {"a": 2, "b": 1}, "r": {}}, {"q": "owl", "r": "cat"}, 2
    )
    assert [*found] == ["q"]
    assert found["q"].relevant.tolist() == [True, False]
    assert notes == ["without scores, left out: 1 of 2 queries"]


def test_skipped_rankings_are_left_out_and_named():
    skipping = Reranker("lexical", when={"words": {"below": 1}})
    ranking = skipping.rerank("owl", [{"id": "a", "text": "an owl"}])
    found, notes = samples({"q": ranking}, {"q": {"a": 1}}, {"q": "owl"})
    assert found == {}
    assert notes == ["skipped by `when`, left out: 1 of 1 queries; the bound is for the others"]


def test_separation_is_the_mean_over_all_halves():
    found = {str(n): sample([n % 7 + 3.0, n % 5], 0) for n in range(20)}
    apart = separation(found)
    wins = [
        float((a.rerank.max() > b.rerank[1]) + 0.5 * (a.rerank.max() == b.rerank[1]))
        for m, a in found.items()
        for n, b in found.items()
        if m != n
    ]
    assert apart.auroc == pytest.approx(np.mean(wins))
    assert apart.usable is (apart.auroc >= 0.75)
    assert separation(found, {name: [99.0] for name in found}).auroc == 0.0
    assert separation({name: found[name] for name in [*found][:19]}) is None


def test_lists_of_relevant_candidates_alone_have_no_counterpart():
    found = {str(n): sample([n % 7 + 3.0, n % 5], 0) for n in range(20)}
    assert separation({**found, "all": sample([1.0], 0)}).best_without.shape == (20,)
    assert separation({**found, "none": sample([1.0])}).best.shape == (20,)

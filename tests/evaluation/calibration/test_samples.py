"""What calibration learns from, and whether a score finds lists without anything relevant."""

import numpy as np
import pytest

from secondpass import Reranker
from secondpass.errors import InputError
from secondpass.evaluation.calibration.mapping import fit_probabilities
from secondpass.evaluation.calibration.samples import Sample, samples, separation


def sample(scores, *relevant):
    flags = np.array([index in relevant for index in range(len(scores))])
    return Sample(np.array(scores, float), np.array(scores, float), flags)


def test_scores_of_rankings():
    ranking = Reranker("lexical").rerank(
        "owl", [{"id": "a", "text": "an owl"}, {"id": "b", "text": "x"}]
    )
    failed = Reranker("lexical").rerank("owl", [])
    found, notes = samples({"q": ranking, "r": failed}, {"q": {"a": 2, "b": 1}, "r": {}}, 2)
    assert [*found] == ["q"]
    assert found["q"].relevant.tolist() == [True, False]
    assert notes == ["without scores, left out: 1 of 2 queries"]


def test_skipped_rankings_are_left_out_and_named():
    skipping = Reranker("lexical", when={"words": {"below": 1}})
    ranking = skipping.rerank("owl", [{"id": "a", "text": "an owl"}])
    found, notes = samples({"q": ranking}, {"q": {"a": 1}})
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


def generated(logit, queries=80, seed=0):
    generator = np.random.default_rng(seed)
    found = {}
    for query in range(queries):
        scores = generator.uniform(-4, 4, 10)
        flags = generator.random(10) < 1 / (1 + np.exp(-logit(scores)))
        found[str(query)] = Sample(scores, scores, flags)
    return found


@pytest.fixture(scope="module")
def logistic():
    """Scores, and the probabilities that are fitted to them."""
    found = generated(lambda score: 1.5 * score - 1, queries=60)
    return found, fit_probabilities(found, None)


def test_probabilities_of_a_logistic_score(logistic):
    _, fit = logistic
    assert fit.kind == "platt"
    assert fit.probabilities.slope == pytest.approx(1.5, rel=0.2)
    assert fit.losses["platt"] < fit.losses["constant"]


def test_probabilities_of_a_step():
    fit = fit_probabilities(generated(lambda score: np.where(score > 2, 4.0, -2.0)), None)
    assert fit.kind == "isotonic"
    assert fit.probabilities.of(3.0) == pytest.approx(0.98, abs=0.05)
    assert fit.probabilities.of(0.0) == pytest.approx(0.12, abs=0.05)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({str(n): sample([1.0, 2.0], 0) for n in range(9)}, "needs 10 queries with scores, not 9"),
        ({str(n): sample([1.0, 2.0], 0, 1) for n in range(10)}, "all of them are relevant"),
        ({str(n): sample([1.0, 2.0]) for n in range(10)}, "none of them are relevant"),
        ({str(n): sample([1.0, 2.0], 0) for n in range(10)}, "the scores say no more of relevance"),
    ],
)
def test_probabilities_need_evidence(found, message):
    with pytest.raises(InputError, match=message):
        fit_probabilities(found, None)


@pytest.mark.parametrize("seed", range(6))
def test_scores_that_fall_with_relevance_have_no_probabilities(seed):
    with pytest.raises(InputError, match="say no more of relevance than the share"):
        fit_probabilities(generated(lambda score: -score, 40, seed), None)


@pytest.mark.parametrize(("unit", "start"), [(1.0, 1e6), (1e-6, 1.0)])
def test_probabilities_of_scores_that_lie_close(logistic, unit, start):
    found, plain = logistic
    moved = [item.rerank * unit + start for item in found.values()]
    close = {
        str(n): Sample(s, s, item.relevant)
        for n, (s, item) in enumerate(zip(moved, found.values(), strict=True))
    }
    fit = fit_probabilities(close, None)
    assert fit.losses["platt"] == pytest.approx(plain.losses["platt"], abs=1e-3)

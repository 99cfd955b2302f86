"""Scores as probabilities."""

import numpy as np
import pytest

from secondpass.errors import InputError
from secondpass_evaluation.calibration.mapping import fit_probabilities
from secondpass_evaluation.calibration.samples import Sample


def sample(scores, *relevant):
    flags = np.array([index in relevant for index in range(len(scores))])
    return Sample(np.array(scores, float), np.array(scores, float), flags)


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
        ({str(n): sample([1.0, 2.0], 0) for n in range(10)}, "relevance no better than the share"),
    ],
)
def test_probabilities_need_evidence(found, message):
    with pytest.raises(InputError, match=message):
        fit_probabilities(found, None)


@pytest.mark.parametrize("seed", range(2))
def test_scores_that_fall_with_relevance_have_no_probabilities(seed):
    with pytest.raises(InputError, match="relevance no better than the share"):
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

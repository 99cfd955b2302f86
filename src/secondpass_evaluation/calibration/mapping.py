"""Maps rerank scores to probabilities, by a logistic or an isotonic regression.

Platt, "Probabilistic outputs for support vector machines and comparisons to regularized likelihood
methods", 1999; Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass
probability estimates", KDD 2002. The kind with the lower log loss on held-out queries is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from secondpass import InputError
from secondpass.ranking.floors import Fit, Probabilities
from secondpass_evaluation.calibration.samples import Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]
    Labels = NDArray[np.bool_]

FOLDS = 5
_DIGITS = 9
"""Significant digits: those of single precision."""


@dataclass(frozen=True)
class MappingFit:
    """A mapping, and the loss of each kind on held-out queries.

    Attributes:
        probabilities: the better mapping, fitted on all queries.
        kind: ``platt`` or ``isotonic``.
        losses: mean log loss in nats over the folds, by kind; ``constant`` predicts the share of
            relevant candidates.
    """

    probabilities: Probabilities
    kind: str
    losses: Mapping[str, float]


def fit_probabilities(
    by_query: Mapping[str, Sample], fitted: Fit | None, seed: int = 0
) -> MappingFit:
    """Fit both mappings, and choose by cross-validated log loss over queries.

    All candidates of a query are in the same fold. Candidates without a judgement count as not
    relevant.
    """
    import numpy as np

    samples = [*by_query.values()]
    if len(samples) < 2 * FOLDS:
        raise InputError(
            f"probabilities: needs {2 * FOLDS} queries with scores, not {len(samples)}"
        )
    scores = np.concatenate([sample.rerank for sample in samples])
    labels = np.concatenate([sample.relevant for sample in samples])
    if labels.all() or not labels.any():
        which = "all" if labels.all() else "none"
        raise InputError(
            f"probabilities: needs relevant and other candidates, but {which} of them are relevant"
        )
    folds = np.random.default_rng(seed).permutation(len(samples)) % FOLDS
    fold = np.concatenate(
        [np.full(len(sample.rerank), number) for sample, number in zip(samples, folds, strict=True)]
    )
    totals = dict.fromkeys(("platt", "isotonic", "constant"), 0.0)
    for number in range(FOLDS):
        inside, outside = fold != number, fold == number
        share = np.full(outside.sum(), _smoothed(labels[inside]).mean())
        totals["constant"] += _log_loss(share, labels[outside])
        for kind, fit in _FITS.items():
            mapping = Probabilities(**fit(scores[inside], labels[inside]))
            values = np.array([mapping.of(score) for score in scores[outside]])
            totals[kind] += _log_loss(values, labels[outside])
    losses = {kind: total / len(scores) for kind, total in totals.items()}
    kind = min(_FITS, key=losses.__getitem__)
    settings = _FITS[kind](scores, labels)
    if _is_constant(settings) or losses[kind] >= losses["constant"]:
        raise InputError(
            "probabilities: on held-out queries, the scores predict relevance no better than the "
            "share of relevant candidates does"
        )
    return MappingFit(Probabilities(**settings, fitted=fitted), kind, losses)


def _smoothed(labels: Labels) -> Scores:
    """Platt's targets, which are near 0 and 1, depending on the number of examples per class."""
    import numpy as np

    positive = int(labels.sum())
    negative = len(labels) - positive
    return np.where(labels, (positive + 1) / (positive + 2), 1 / (negative + 2))


def _is_constant(settings: Mapping[str, Any]) -> bool:
    """Whether a mapping gives all scores the same probability."""
    if "slope" in settings:
        return bool(settings["slope"] == 0)
    return len({*settings["values"]}) == 1


def _platt(scores: Scores, labels: Labels) -> dict[str, Any]:
    import numpy as np
    from scipy.optimize import minimize

    middle, spread = scores.mean(), scores.std() or 1.0
    unit, targets = (scores - middle) / spread, _smoothed(labels)

    def loss(parameters: Scores) -> tuple[float, Scores]:
        logits = parameters[0] * unit + parameters[1]
        value = (np.logaddexp(0, logits) - targets * logits).mean()
        error = 1 / (1 + np.exp(-np.clip(logits, -500, 500))) - targets
        return float(value), np.array([(error * unit).mean(), error.mean()])

    start = np.array([1.0, float(np.log(targets.mean() / (1 - targets.mean())))])
    fit = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None), (None, None)])
    slope = float(fit.x[0] / spread)
    return {"slope": _rounded(slope), "intercept": _rounded(fit.x[1] - slope * middle)}


def _isotonic(scores: Scores, labels: Labels) -> dict[str, Any]:
    import numpy as np
    from scipy.optimize import isotonic_regression

    distinct, places = np.unique(scores, return_inverse=True)
    counts = np.bincount(places)
    shares = np.bincount(places, weights=labels) / counts
    values = isotonic_regression(shares, weights=counts).x
    # Keep only the ends of each step; values between them are interpolated.
    steps = np.flatnonzero(np.diff(values)) if len(values) > 1 else np.array([], int)
    kept = sorted({0, *steps.tolist(), *(steps + 1).tolist(), len(values) - 1})
    lowest = 1 / (len(scores) + 2)  # a finite sample does not justify 0 or 1
    points: dict[float, float] = {}
    for index in kept:
        value = float(np.clip(values[index], lowest, 1 - lowest))
        points[_rounded(distinct[index])] = _rounded(value)
    return {"scores": [*points], "values": [*points.values()]}


def _log_loss(values: Scores, labels: Labels) -> float:
    """The sum of the log losses, in nats."""
    import numpy as np

    clipped = np.clip(values, 1e-12, 1 - 1e-12)
    return float(-np.where(labels, np.log(clipped), np.log1p(-clipped)).sum())


def _rounded(value: float) -> float:
    return float(f"{float(value):.{_DIGITS}g}")


_FITS: Mapping[str, Callable[[Scores, Labels], dict[str, Any]]] = {
    "platt": _platt,
    "isotonic": _isotonic,
}

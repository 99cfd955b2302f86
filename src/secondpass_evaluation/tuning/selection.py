"""The statistics of tuning: nested cross-validation, and a test corrected for all variants.

Each method has several variants (depths, blends), whose gains over the first stage are known on
every query. In each outer fold, the variant with the highest mean on the other queries is chosen
and measured on the fold, so that no query decides on the variant that it measures: Stone,
"Cross-validatory choice and assessment of statistical predictions", Journal of the Royal
Statistical Society B 36, 1974; Varma and Simon, "Bias in error estimation when using
cross-validation for model selection", BMC Bioinformatics 7, 2006.

The test is a randomisation test of held-out gains. If a method changes queries for better or worse
by chance alone, the gains of all its variants on a query could as well have the opposite sign,
together. So signs are drawn at random for each query, *all choices are repeated*, and the observed
statistic is compared with the resulting ones. A set of methods is tested like one method with all
their variants; the corrected p of a method is the largest p of all sets that contain it.
This is closed testing: Marcus, Peritz and Gabriel, "On closed testing procedures with special
reference to ordered analysis of variance", Biometrika 63, 1976. It bounds the chance that any
method without a gain is adopted, whatever the number of methods and variants and however they are
correlated. Under the null hypothesis of signs the test is exact for any number of queries; for the
weaker one that only the *mean* gain is 0 it is exact in the limit of many queries.

Until then it errs if losses are large and so rare that few queries show one. So there is a second
test, Student's, of the held-out gains *and one more query, on which what the first stage has is
lost*. For gains without any loss it requires about what the rule of three does: that the mean gain
would outweigh losing everything on 3 of n queries, as a loss that is rarer than that is missed once
in twenty times (Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA
249, 1983). The p of a method is the larger of both, and its interval is Student's, with the same
query.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from secondpass.attributes import unchangeable
from secondpass_evaluation.significance import holm

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

MOST_METHODS = 8
"""Most methods of a selection: they have 255 sets, and each is tested."""

_BATCH = 2_000_000
"""Held-out gains to compute at a time, which bounds the memory."""

_ROUNDING = 1e-9
"""Gains and deviations up to this are rounding errors of 0."""

_POWER = 0.8
"""Probability of a significant result that :func:`queries_needed` plans for."""


@unchangeable
@dataclass(frozen=True, slots=True)
class Held:
    """Gains on queries that had no part in the choice.

    Attributes:
        mean: mean gain over the queries.
        low: lower end of its interval: Student's t over the queries and one on which the first
            stage's mean is lost. None if all gains are equal and the first stage's mean is 0.
            Approximate, as the folds share most of their queries.
        high: upper end, with one query on which as much is gained.
        deviation: standard deviation over the queries.
        p: two-sided p-value, corrected for everything that was tried; 1 if no query changes. For a
            single method, ``low`` is above 0 where it is at most ``1 - confidence``.
        changed: number of queries with a gain other than 0.
    """

    mean: float
    low: float | None
    high: float | None
    deviation: float
    p: float
    changed: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of nested cross-validation, by name of a method.

    Attributes:
        methods: held-out gains if only its variant is chosen.
        together: held-out gains if the method is also chosen in the training folds. Its p is the
            smallest p of the methods.
        variants: index of the variant that is best on all queries.
        critical: the statistic that it has to exceed.
        loss: the loss on one more query that p and intervals count with.
    """

    methods: Mapping[str, Held]
    together: Held
    variants: Mapping[str, int]
    critical: Mapping[str, float]
    loss: float


def select(
    gains: Mapping[str, Array],
    *,
    loss: float,
    folds: int,
    repeats: int,
    resamples: int,
    confidence: float,
    seed: int,
) -> Selection:
    """Choose variants by cross-validation, and test the held-out gains of each method."""
    import numpy as np

    rng = np.random.default_rng(seed)
    names = [*gains]
    count = gains[names[0]].shape[1]
    splits = [rng.permutation(count) % min(folds, count) for _ in range(repeats)]
    rows = [gains[name] for name in names]
    sets: list[list[int]] = []  # each set of methods that is not empty, by their indices
    for bits in range(1, 2 ** len(names)):
        sets.append([index for index in range(len(names)) if bits >> index & 1])
    observed = [*_held_out(rows, np.ones((1, count)), splits, sets)]
    drawn: list[list[Array]] = [[] for _ in sets]
    for signs in _signs(rng, resamples, count, len(names) * repeats):
        for statistics, held in zip(drawn, _held_out(rows, signs, splits, sets), strict=True):
            statistics.append(_statistic(*held))
    p_values, criticals = np.zeros(len(names)), np.zeros(len(names))
    for members, held, statistics in zip(sets, observed, drawn, strict=True):
        # Rounded, so that rounding errors do not break ties between equal statistics.
        null = np.round(np.concatenate(statistics), 9)
        statistic = np.round(_statistic(*held)[0], 9)
        tail = min((null >= statistic).sum(), (null <= statistic).sum())
        p = min(1.0, 2 * (1 + tail) / (resamples + 1))
        critical = np.quantile(null, (1 + confidence) / 2, method="higher")
        p_values[members] = np.maximum(p_values[members], p)
        criticals[members] = np.maximum(criticals[members], critical)
    alone = {members[0]: held[0][0] for members, held in zip(sets, observed, strict=True)
             if len(members) == 1}  # fmt: skip
    guarded = holm([_p_with_loss(alone[index], loss) for index in range(len(names))])
    p_values = np.maximum(p_values, np.array(guarded, float))
    return Selection(
        {name: _held(alone[i], float(p_values[i]), loss, confidence)
         for i, name in enumerate(names)},
        _held(observed[-1][0][0], float(p_values.min()), loss, confidence),
        {name: _best(gains[name].mean(axis=1)) for name in names},
        dict(zip(names, map(float, criticals), strict=True)),
        loss,
    )  # fmt: skip


def is_significant(held: Held, confidence: float) -> bool:
    """Whether p is below 1 - confidence; the margin is for rounding errors."""
    return held.p < 1 - confidence - 1e-12


def winner(selection: Selection, *, smallest_gain: float, confidence: float) -> str | None:
    """The method to adopt; None keeps the first stage.

    It is the significant method with the highest held-out gain, if that gain and the gain of the
    whole choice (``together``) are at least the smallest gain.
    """
    significant = {
        name: held.mean
        for name, held in selection.methods.items()
        if is_significant(held, confidence) and held.mean > 0
    }
    if not significant:
        return None
    best = max(significant, key=significant.__getitem__)
    return best if min(significant[best], selection.together.mean) >= smallest_gain else None


def queries_needed(held: Held, critical: float, gain: float, loss: float) -> int | None:
    """Number of queries at which a true mean gain is significant more often than not.

    The smallest n whose statistic ``(n * gain - loss) / sqrt(n * deviation**2 + loss**2)`` is
    ``critical + 0.84``: by the normal approximation, for the observed deviation (Cohen,
    "Statistical power analysis for the behavioral sciences", 2nd edition, 1988). The probability is
    0.8 for a single variant; it is lower if variants have to be chosen.
    """
    from scipy import stats

    if held.deviation == 0 and loss == 0:
        return None
    margin = (max(critical, 0.0) + float(stats.norm.ppf(_POWER))) ** 2
    half = gain * loss + margin * held.deviation**2 / 2
    root = math.sqrt(half**2 - (gain * loss) ** 2 * (1 - margin))
    return max(2, math.ceil((half + root) / gain**2))


def _signs(rng: np.random.Generator, count: int, queries: int, copies: int) -> Iterator[Array]:
    """Batches of random sign vectors; each vector is copied ``copies`` times in memory."""
    import numpy as np

    batch = max(1, _BATCH // (queries * copies))
    for start in range(0, count, batch):
        rows = min(batch, count - start)
        yield rng.integers(0, 2, (rows, queries)).astype(np.float64) * 2 - 1


def _held_out(
    gains: Sequence[Array], signs: Array, splits: Sequence[Any], sets: Sequence[Sequence[int]]
) -> Iterator[tuple[Array, Array]]:
    """The arguments of :func:`_statistic` for each set of methods."""
    import numpy as np

    folds = 1 + max(int(split.max()) for split in splits)
    shape = (len(splits), folds, len(gains), len(signs))
    best = np.full(shape, -np.inf)  # the highest mean of the training queries, up to a factor
    held = np.zeros((len(splits), len(gains), *signs.shape))
    for method, rows in enumerate(gains):
        total = signs @ rows.T
        for number, split in enumerate(splits):
            for fold in range(folds):
                inside = np.flatnonzero(split == fold)
                part = signs[:, inside]
                # Rounded, so that rounding errors do not break ties.
                training = np.round(total - part @ rows[:, inside].T, 9)
                chosen = training.argmax(axis=1)
                best[number, fold, method] = training.max(axis=1)
                held[number, method][:, inside] = rows[chosen[:, None], inside[None]] * part
    vectors, queries = np.arange(len(signs))[:, None], np.arange(signs.shape[1])[None]
    for members in sets:
        picked = np.asarray(members)[best[:, :, members].argmax(axis=2)]
        result, squares = np.zeros(signs.shape), np.zeros(len(signs))
        for number, split in enumerate(splits):
            part = held[number][picked[number][split].T, vectors, queries]
            result += part
            squares += (part**2).sum(axis=1)
        yield result / len(splits), squares / len(splits)


def _statistic(held: Array, squares: Array) -> Array:
    """Sum of gains over root of the sum of squares, for each row: monotone in Student's t.

    The squares are averaged over the splits, not taken of the averaged gains: those are smaller if
    the choice differs between splits, so an unstable choice would appear more certain.
    """
    import numpy as np

    result: Array = np.divide(
        held.sum(axis=1), np.sqrt(squares), out=np.zeros(len(held)), where=squares > 0
    )
    return result


def _best(means: Array) -> int:
    import numpy as np

    return int(np.round(means, 12).argmax())


def _p_with_loss(gains: Array, loss: float) -> float:
    """Two-sided p of Student's test with one more query, which pulls the mean towards 0."""
    import numpy as np
    from scipy import stats

    more = np.append(gains, -math.copysign(loss, gains.mean()))
    error = float(more.std(ddof=1)) / math.sqrt(len(more))
    mean = float(more.mean()) * math.copysign(1, gains.mean())
    if error < _ROUNDING:
        return 1.0 if abs(mean) < _ROUNDING else 0.0
    return min(1.0, 2 * float(stats.t.sf(mean / error, len(gains))))


def _margin(values: Array, quantile: float) -> float:
    """Half of the width of Student's interval of a mean."""
    return quantile * float(values.std(ddof=1)) / math.sqrt(len(values))


def _held(gains: Array, p: float, loss: float, confidence: float) -> Held:
    import numpy as np
    from scipy import stats

    mean, deviation = float(gains.mean()), float(gains.std(ddof=1))
    changed = int((np.abs(gains) > _ROUNDING).sum())
    deviation = 0.0 if deviation < _ROUNDING else deviation
    low = high = None
    if deviation or loss:
        quantile = float(stats.t.ppf((1 + confidence) / 2, len(gains)))
        with_loss, with_gain = np.append(gains, -loss), np.append(gains, loss)
        # The deviations of both differ, so the interval is not symmetric.
        low = float(with_loss.mean()) - _margin(with_loss, quantile)
        high = float(with_gain.mean()) + _margin(with_gain, quantile)
        low, high = min(low, mean), max(high, mean)
    return Held(mean, low, high, deviation, p if changed else 1.0, changed)

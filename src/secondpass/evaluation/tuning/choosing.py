"""The choice among variants: selection, the front, the queries that are missing, and the gate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from secondpass.config import load
from secondpass.errors import InputError
from secondpass.evaluation.gates.learning import learn_gate
from secondpass.evaluation.measures import evaluate
from secondpass.evaluation.observations import Observations
from secondpass.evaluation.report import tuning as report
from secondpass.evaluation.tuning import selection as selections
from secondpass.evaluation.tuning.records import Point, Trial, TuningData
from secondpass.evaluation.tuning.replay import replayed_rankings
from secondpass.evaluation.tuning.trials import Attempt, bare

FOLDS, REPEATS, RESAMPLES = 5, 4, 1_999


def choose(
    observed: Observations,
    before: Mapping[str, float],
    attempts: Sequence[Attempt],
    measure: str,
    settings: Mapping[str, Any],
) -> TuningData:
    """Select on the gains of all variants."""
    import numpy as np

    suite = observed.suite
    base = np.array([*before.values()])
    values = {
        attempt.name: np.array(
            [
                [*evaluate(variant.run, suite.qrels, [measure]).per_query[measure].values()]
                for variant in attempt.variants
            ]
        )
        for attempt in attempts
        if attempt.variants
    }
    level, smallest = settings["confidence"], settings["smallest_gain"]
    found = adopted = None
    if values:
        found = selections.select(
            {name: rows - base for name, rows in values.items()},
            folds=FOLDS,
            repeats=REPEATS,
            resamples=RESAMPLES,
            confidence=level,
            seed=settings["seed"],
        )
        adopted = selections.winner(found, smallest_gain=smallest, confidence=level)
    gain = found.methods[adopted].mean if found is not None and adopted is not None else 0.0
    trials = []
    for attempt in attempts:
        if found is None or attempt.name not in values:
            statuses = dict(attempt.statuses)
            trials.append(Trial(attempt.name, "not_tried", attempt.reason, statuses=statuses))
            continue
        held, index = found.methods[attempt.name], found.variants[attempt.name]
        variant = attempt.variants[index]
        is_adopted = attempt.name == adopted
        trials.append(
            Trial(
                attempt.name,
                "adopted" if is_adopted else "tried",
                "" if is_adopted else report.why_not(held, adopted, smallest, level, gain),
                variant.config,
                len(attempt.variants),
                variant.label,
                float(values[attempt.name][index].mean()),
                held,
                variant.p95,
                variant.cost,
                dict(attempt.statuses),
            )
        )
    more = target = None
    if found is not None and adopted is None:
        more, target = _more(found, len(base), smallest)
    return TuningData(
        suite.name,
        len(base),
        observed.stage,
        measure,
        float(base.mean()),
        adopted,
        next((trial.config for trial in trials if trial.status == "adopted"), None),
        None if found is None else found.together,
        more,
        target,
        tuple(trials),
        _front(observed.stage, float(base.mean()), attempts, values),
        settings=settings,
        notes=(*suite.notes, *_faults(attempts)),
    )


def _more(found: selections.Selection, queries: int, smallest: float) -> tuple[int | None, float]:
    """How many more queries tell the best gain so far, or the smallest, from chance.

    None are missing where a gain as large as the smallest would have been found.
    """
    name = max(found.methods, key=lambda name: found.methods[name].mean)
    best = found.methods[name]
    gain = max(best.mean, smallest, 1e-6)
    needed = selections.queries_needed(best, found.critical[name], gain)
    fewest = 1 if best.mean >= smallest else 0
    return None if needed is None else max(fewest, needed - queries), gain


def _faults(attempts: Sequence[Attempt]) -> Iterator[str]:
    """What is not by the reranker itself in the figures of those that were tried."""
    for attempt in attempts:
        if not attempt.variants:
            continue
        if attempt.reason:
            yield f"{attempt.name} was not tried at all depths: {attempt.reason}"
        faults = [
            f"{number:,} {status}"
            for status, number in sorted(attempt.statuses.items())
            if status != "ok"
        ]
        if faults:
            yield (
                f"{attempt.name}: of {attempt.statuses.total():,} rankings, {', '.join(faults)}; "
                "its figures are with these"
            )


def _front(
    stage: str, baseline: float, attempts: Sequence[Attempt], values: Mapping[str, Any]
) -> tuple[Point, ...]:
    """The first stage, and what nothing at least as good, fast and cheap is better than."""
    points = [Point(stage, "no second pass", baseline, 0.0, 0.0)]
    for attempt in attempts:
        for index, variant in enumerate(attempt.variants):
            mean = float(values[attempt.name][index].mean())
            points.append(
                Point(attempt.name, variant.label, mean, variant.p95, variant.cost, variant.config)
            )

    def key(point: Point) -> tuple[float, float, float]:
        return (-point.mean, point.seconds, math.inf if point.cost is None else point.cost)

    kept: list[Point] = []
    for point in sorted(points, key=key):
        own = key(point)
        if not any(all(map(float.__le__, key(other), own)) for other in kept):
            kept.append(point)
    return tuple(sorted(kept, key=lambda point: (point.seconds, point.mean)))


def with_gate(
    tuning: TuningData, observed: Observations, attempts: Sequence[Attempt]
) -> TuningData:
    """The configuration with the gate that is learned for it, if one helps."""
    attempt = next((item for item in attempts if item.name == tuning.adopted), None)
    if attempt is None or tuning.config is None or not attempt.depths:
        return tuning
    variant = next(item for item in attempt.variants if item.config == tuning.config)
    depth = variant.depth or observed.depth
    rankings = attempt.rankings[attempt.runs[-1] if attempt.alone else depth]
    if variant.blend is not None or depth not in attempt.rankings:
        reranker = bare(attempt.config, depth)
        scale, name = reranker.method.scale, reranker.method.name
        reranker.close()
        rankings = replayed_rankings(rankings, name, variant.blend, depth=depth, scale=scale)
    reranker = load(tuning.config)
    try:
        fit = learn_gate(
            observed.suite,
            observed.candidates,
            rankings,
            measure=tuning.measure,
            reranker=reranker,
            first_stage=observed.stage,
        )
    except InputError as error:  # of configurations that leave candidates out
        return replace(tuning, gate=f"No gate: {error}.")
    finally:
        reranker.close()
    config = tuning.config if fit.when is None else {**tuning.config, "when": dict(fit.when)}
    return replace(tuning, config=config, gate=fit.reason)

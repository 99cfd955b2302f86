"""Chooses among variants: selection, Pareto front and number of missing queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from secondpass.formats.runs import Run
from secondpass_evaluation.distinct import averaged, repetition_notes
from secondpass_evaluation.measures import evaluate
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.tuning import result as report
from secondpass_evaluation.tuning import selection as selections
from secondpass_evaluation.tuning.result import Point, Trial, TuningData
from secondpass_evaluation.tuning.trials import Attempt

FOLDS, REPEATS, RESAMPLES = 5, 4, 1_999


def choose(
    observed: Observations,
    before: Mapping[str, float],
    attempts: Sequence[Attempt],
    measure: str,
    settings: Mapping[str, Any],
) -> TuningData:
    """Select a reranker and its variant by the gains of all variants.

    Args:
        observed: the suite and the first stage.
        before: query id -> value of the measure for the first stage.
        attempts: the rerankers with their variants.
        measure: name as in ir_measures.
        settings: ``confidence``, ``smallest_gain`` and ``seed``, and others for the record.
    """
    import numpy as np

    suite = observed.suite

    def of_texts(run: Run) -> list[float]:
        values = evaluate(run, suite.qrels, [measure]).per_query[measure]
        return [*averaged(values, suite.queries).values()]

    base = np.array([*averaged(before, suite.queries).values()])
    # A loss hits only queries on which there is something to lose.
    loss = float(base[base > 0].mean()) if (base > 0).any() else 0.0
    values = {
        attempt.name: np.array([of_texts(variant.run) for variant in attempt.variants])
        for attempt in attempts
        if attempt.variants
    }
    level, smallest = settings["confidence"], settings["smallest_gain"]
    selection = adopted = None
    if values:
        selection = selections.select(
            {name: rows - base for name, rows in values.items()},
            loss=loss,
            folds=FOLDS,
            repeats=REPEATS,
            resamples=RESAMPLES,
            confidence=level,
            seed=settings["seed"],
        )
        adopted = selections.winner(selection, smallest_gain=smallest, confidence=level)
    gain = 0.0
    if selection is not None and adopted is not None:
        gain = selection.methods[adopted].mean
    trials = []
    for attempt in attempts:
        if selection is None or attempt.name not in values:
            statuses = dict(attempt.statuses)
            trials.append(Trial(attempt.name, "not_tried", attempt.reason, statuses=statuses))
            continue
        held, index = selection.methods[attempt.name], selection.variants[attempt.name]
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
    if selection is not None and adopted is None:
        more, target = _more(selection, len(base), smallest)
    return TuningData(
        suite.name,
        len(base),
        observed.stage,
        measure,
        float(base.mean()),
        adopted,
        next((trial.config for trial in trials if trial.status == "adopted"), None),
        None if selection is None else selection.together,
        more,
        target,
        tuple(trials),
        _front(observed.stage, float(base.mean()), attempts, values),
        settings=settings,
        notes=(*suite.notes, *repetition_notes(suite.queries), *_failures(attempts)),
    )


def _more(
    selection: selections.Selection, queries: int, smallest: float
) -> tuple[int | None, float]:
    """Number of missing queries to detect the best gain so far, or the smallest; and that gain.

    The number is None if it cannot be estimated, and 0 if a gain as large as the smallest could
    have been detected.
    """
    name = max(selection.methods, key=lambda name: selection.methods[name].mean)
    best = selection.methods[name]
    gain = max(best.mean, smallest, 1e-6)
    needed = selections.queries_needed(best, selection.critical[name], gain, selection.loss)
    fewest = 1 if best.mean >= smallest else 0
    return None if needed is None else max(fewest, needed - queries), gain


def _failures(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Notes on depths that failed, and on rankings that are not ``ok``."""
    for attempt in attempts:
        if not attempt.variants:
            continue
        if attempt.reason:
            yield f"{attempt.name} was not tried at all depths: {attempt.reason}"
        counts = [
            f"{number:,} {status}"
            for status, number in sorted(attempt.statuses.items())
            if status != "ok"
        ]
        if counts:
            yield (
                f"{attempt.name}: of {attempt.statuses.total():,} rankings, {', '.join(counts)}; "
                "its figures include these"
            )


def _front(
    stage: str, baseline: float, attempts: Sequence[Attempt], values: Mapping[str, Any]
) -> tuple[Point, ...]:
    """The Pareto front of quality, time and cost, including the first stage; fastest first."""
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

"""Chooses a reranker with its settings, or none, on judged queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from secondpass import InputError
from secondpass.asking.life_cycle import close_all
from secondpass.formats.errors import check_numbers
from secondpass.settings import counted, describe
from secondpass.settings.arguments import explained
from secondpass.settings.environment import read
from secondpass.types import Progress
from secondpass_evaluation.distinct import averaged, distinct_count, repetition_notes
from secondpass_evaluation.dry_run import ExpectedComparison, expected_of_services
from secondpass_evaluation.environment import machine, timestamp, versions
from secondpass_evaluation.first_stages import FirstStage, Retriever
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.measures import evaluate, ranking_to_run, relevance_of
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.reading import Run
from secondpass_evaluation.report.text import p_phrase
from secondpass_evaluation.rerankers import Spec, close_created, create_rerankers
from secondpass_evaluation.suites import Suite
from secondpass_evaluation.tuning import selection as selections
from secondpass_evaluation.tuning.result import ZERO, BetterSearch, Trial, Tuning, Variant
from secondpass_evaluation.tuning.selection import MOST_METHODS
from secondpass_evaluation.tuning.trials import (
    Attempt,
    bare,
    longest_list,
    measure_attempt,
    named,
    prepare,
)

SMALLEST_GAIN = 0.01
"""A gain of 0.01 in nDCG@10 is as if, in one query of 37, the only relevant passage moved from rank
2 to rank 1. Users hardly notice a smaller one, and every pass takes time."""


@explained()
def tune(
    suite: Suite,
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec | None = None,
    *,
    retriever: Retriever | None = None,
    behind: FirstStage | None = None,
    depth: int = 100,
    depths: Sequence[int] | None = None,
    latency: float | None = None,
    cost: float | None = None,
    measure: str = "nDCG@10",
    smallest_gain: float = SMALLEST_GAIN,
    seed: int = 0,
    concurrency: int = 1,
    progress: Progress | None = None,
    journal: Journal | None = None,
    now: str | None = None,
    expected: Callable[[ExpectedComparison], object] | None = None,
) -> Tuning:
    """Choose a reranker, its depth and its blend, or keep the first stage.

    All are chosen by nested cross-validation over the queries, of which equal texts count as one. A
    reranker is adopted only if its gain on held-out queries is significant, corrected for
    everything that was tried, and at least ``smallest_gain``. See
    :mod:`secondpass_evaluation.tuning.selection` for the statistics and their assumptions.

    The method runs once for all blends, as they are computed from its scores, and once for all
    depths if the score of a candidate does not depend on the others. A service is called for
    further depths only if ``depths`` are given. A configuration's ``floor`` and ``when`` are valid
    only for its own blend and depth, so they are left out.

    Args:
        suite: with at least 30 judged queries with different texts.
        rerankers: by name or without: presets, YAML files, configurations, names of cross-encoders.
            None: the presets of local models, ``lexical``, ``embedded`` and ``default``.
        retriever: as for :func:`~secondpass_evaluation.compare`.
        behind: one first stage.
        depth: maximum number of candidates of each query.
        depths: numbers of candidates to rerank. None: 20, 50, 100 and the configuration's own; for
            services their own, and smaller ones that need no further calls.
        latency: maximum seconds of reranking for 95 % of the queries. Slower rerankers and variants
            are not chosen. Times are measured here, or were measured when the journal was written;
            for depths that are computed, they are scaled in proportion. None: no limit.
        cost: maximum cost of a query, at the configured prices. A service that is expected to cost
            more is not called. None: no limit.
        measure: name as in ir_measures.
        smallest_gain: in units of the measure, 0 or more.
        seed: of the folds and the test.
        concurrency: number of rankings at a time. Times then include waiting for each other.
        progress: called after each query.
        journal: receives each finished ranking; rankings that it has are reused.
        now: the time for ``terms``, as a date or time in ISO 8601. None: the beginning of this day.
        expected: called before a language model or a rerank API is called. An exception that it
            raises passes through.

    Raises:
        InputError: an argument is wrong; there are too few queries; or no relevant document is
            among the candidates, so that no reranker can gain anything.
        ConfigurationError: a configuration is wrong.
        MeasureError: the measure is unknown.
    """
    started = timestamp()
    check_arguments(suite, depths, latency=latency, cost=cost, smallest_gain=smallest_gain)
    check_numbers(seed=(seed, 0))
    created, missing = create_rerankers(named(rerankers))
    try:
        if not created and not missing:
            raise InputError("rerankers: give at least one")
        if len(created) > MOST_METHODS:
            raise InputError(
                f"rerankers: at most {MOST_METHODS} can be compared, not {len(created)}"
            )
        observed = Observations(
            suite,
            retriever=retriever,
            behind=behind,
            depth=depth,
            concurrency=concurrency,
            progress=progress,
            journal=journal,
            now=now,
        )
        before = evaluate(ranking_to_run(observed.candidates), suite.qrels, [measure])
        check_candidates(observed)
        attempts = [
            prepare(name, reranker, observed, depths, cost)
            for name, (reranker, _) in created.items()
        ]
        _announce(attempts, observed, expected)
        for attempt in attempts:
            if not attempt.reason:
                measure_attempt(attempt, observed)
    finally:
        close_created(created)
    attempts += [Attempt(name, reason=reason) for name, reason in missing.items()]
    for attempt in attempts:
        keep_within(attempt, latency, cost)
    settings: dict[str, Any] = {"depth": depth}
    if latency is not None:
        settings |= {"latency": latency, "latency_of": "p95"}
    if cost is not None:
        settings["cost"] = cost
    settings |= {
        "smallest_gain": smallest_gain,
        "confidence": CONFIDENCE,
        "folds": FOLDS,
        "repeats": REPEATS,
        "resamples": RESAMPLES,
        "seed": seed,
    }
    if any(reranker.terms for reranker, _ in created.values()):
        settings["now"] = observed.now
    settings |= {"date": started, "versions": versions(), "machine": machine()}
    tuning = choose(
        observed,
        before.per_query[measure],
        attempts,
        measure,
        settings,
        others={
            stage: evaluate(ranking_to_run(found), suite.qrels, [measure]).per_query[measure]
            for stage, found in observed.cheap_searches().items()
        },
    )
    return replace(tuning, notes=(*tuning.notes, *_whole_lists(tuning, longest_list(observed))))


def _whole_lists(tuning: Tuning, longest: int) -> Iterator[str]:
    """A note that the adopted depth covers all candidates."""
    depth = None if tuning.config is None else read(tuning.config.get("depth"))
    if depth is not None and depth >= longest:
        yield (
            f"depth {depth:,}: all candidates, up to {longest:,} a query, were reranked; a greater "
            "depth could not be tried"
        )


def _announce(
    attempts: Sequence[Attempt],
    observed: Observations,
    expected: Callable[[ExpectedComparison], object] | None,
) -> None:
    """Call ``expected`` with the expected use of services, if any is to be called."""
    if expected is None:
        return
    rerankers = [
        (f"{attempt.name}@{depth}", bare(attempt.config, depth))
        for attempt in attempts
        if attempt.asks and not attempt.reason
        for depth in attempt.runs
    ]
    try:
        systems = [observed.system(name, reranker) for name, reranker in rerankers]
        estimate = expected_of_services(systems, shuffles=0, seed=0)
    finally:
        close_all(reranker for _, reranker in rerankers)
    if estimate is not None:
        expected(estimate)


FOLDS, REPEATS, RESAMPLES = 5, 4, 1_999
CONFIDENCE = 0.95
"""Of intervals and the test."""


def choose(
    observed: Observations,
    before: Mapping[str, float],
    attempts: Sequence[Attempt],
    measure: str,
    settings: Mapping[str, Any],
    *,
    others: Mapping[str, Mapping[str, float]] | None = None,
) -> Tuning:
    """Select a reranker and its variant by the gains of all variants.

    ``before`` are the values of the first stage by query id, and ``others`` those of other searches
    alone, by their names.
    """
    import numpy as np

    suite = observed.suite

    def of_texts(run: Run) -> list[float]:
        values = evaluate(run, suite.qrels, [measure]).per_query[measure]
        return [*averaged(values, suite.queries).values()]

    base = np.array([*averaged(before, suite.queries).values()])
    # A loss hits only queries on which there is something to lose.
    loss = _loss(base)
    values = {
        attempt.name: np.array([of_texts(variant.run) for variant in attempt.variants])
        for attempt in attempts
        if attempt.variants
    }
    smallest = settings["smallest_gain"]
    selection = adopted = None
    numbers: dict[str, Any] = {
        "folds": FOLDS,
        "repeats": REPEATS,
        "resamples": RESAMPLES,
        "confidence": CONFIDENCE,
        "seed": settings["seed"],
    }
    if values:
        selection = selections.select(
            {name: rows - base for name, rows in values.items()}, loss=loss, **numbers
        )
        adopted = selections.winner(selection, smallest_gain=smallest, confidence=CONFIDENCE)
    trials = []
    for attempt in attempts:
        statuses = dict(attempt.statuses)
        if selection is None or attempt.name not in values:
            trials.append(
                Trial(
                    attempt.name,
                    "not_tried",
                    attempt.reason,
                    statuses=statuses,
                    beyond_limits=attempt.beyond_limits,
                )
            )
            continue
        held, index = selection.methods[attempt.name], selection.variants[attempt.name]
        variant, is_adopted = attempt.variants[index], attempt.name == adopted
        trials.append(
            Trial(
                attempt.name,
                "adopted" if is_adopted else "tried",
                "" if is_adopted else _why_not(selection, attempt.name, adopted, smallest),
                variant.config,
                len(attempt.variants),
                variant.label,
                float(values[attempt.name][index].mean()),
                held,
                variant.p95,
                variant.cost,
                statuses,
                share_known=variant.share_known,
            )
        )
    better = None
    searches = {
        name: np.array([*averaged(found, suite.queries).values()])
        for name, found in (others or {}).items()
    }
    if searches:
        best = max(searches, key=lambda name: float(searches[name].mean()))
        alone = searches[best]
        if alone.mean() > base.mean() + ZERO:
            gain = None
            if adopted is not None:
                # The choices are the same, as each loses the same by another baseline.
                gains = {adopted: values[adopted] - alone}
                gain = selections.select(gains, loss=_loss(alone), **numbers).methods[adopted]
            better = BetterSearch(best, float(alone.mean()), gain)
    more = target = None
    if selection is not None and adopted is None:
        more, target = _more(selection, len(base), smallest)
    return Tuning(
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
        settings=settings,
        notes=(*suite.notes, *repetition_notes(suite.queries), *_failures(attempts)),
        better_search=better,
    )


def _loss(values: Any) -> float:
    """The mean of an array's values above 0, which is what a loss loses; 0 if there is none."""
    return float(values[values > 0].mean()) if (values > 0).any() else 0.0


def _why_not(
    selection: selections.Selection, name: str, adopted: str | None, smallest: float
) -> str:
    """Why a reranker was not adopted."""
    held = selection.methods[name]
    if not held.changed:
        return "it changes the measure for no query"
    if held.mean <= 0:
        return "it has no gain on held-out queries"
    if not selections.is_significant(held, CONFIDENCE):
        return f"its gain may be chance ({p_phrase(held.p)}, corrected for all that was tried)"
    if held.mean < smallest:
        return f"its gain is below the smallest gain, {smallest:g}"
    if adopted is not None:
        is_more = selection.methods[adopted].mean > held.mean + 1e-9
        return f"{adopted} gains {'more' if is_more else 'as much'}"
    return f"the gain of the whole choice is below the smallest gain, {smallest:g}"


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
                f"{attempt.name}: of {counted(attempt.statuses.total(), 'ranking')}, not all were "
                f"ok ({', '.join(counts)}); the figures include these"
            )


FEWEST_QUERIES = 30
"""With fewer, a loss on one query in ten would often not show."""


def keep_within(attempt: Attempt, latency: float | None, cost: float | None) -> None:
    """Remove the variants beyond the limits; sets the attempt's reason if none is left."""

    def price(variant: Variant) -> float:
        return math.inf if variant.cost is None else variant.cost

    variants = attempt.variants
    if latency is not None and variants:
        attempt.variants = [item for item in variants if item.p95 <= latency]
        if not attempt.variants:
            fastest = min(item.p95 for item in variants)
            attempt.reason = (
                f"it takes {fastest:.3g} s a query (95th percentile), more than {latency:g}"
            )
    if cost is not None and attempt.variants:
        variants = attempt.variants
        attempt.variants = [item for item in variants if price(item) <= cost]
        if not attempt.variants:
            cheapest = min(map(price, variants))
            known = "its cost is unknown"
            if cheapest < math.inf:
                known = f"it costs {cheapest:.4g} a query"
            attempt.reason = f"{known}, and the limit is {cost:g}"
    attempt.beyond_limits |= bool(variants) and not attempt.variants


def check_arguments(suite: Suite, depths: Sequence[int] | None, **limits: float | None) -> None:
    """Check the arguments of ``tune``."""
    if not isinstance(suite, Suite):
        raise InputError(f"suite: give one of load_suite or make_suite, not {describe(suite)}")
    if depths is not None and (isinstance(depths, str) or not isinstance(depths, Sequence)):
        raise InputError(f"depths: must be a sequence of whole numbers, not {describe(depths)}")
    check_numbers(**{f"depths[{i}]": (depth, 1) for i, depth in enumerate(depths or ())})
    if depths is not None and not depths:
        raise InputError("depths: give at least one")
    for name, value in limits.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 <= value < math.inf):
            raise InputError(f"{name}: must be a number of 0 or more, not {describe(value)}")
    if limits.get("latency") == 0:
        raise InputError("latency: must be more than 0; None is no limit")
    if missing := too_few(suite):
        raise InputError(f"{suite.name}: {missing}")


def too_few(suite: Suite) -> str:
    """What a suite has too little of to tune on; empty if it has enough."""
    count = distinct_count(suite.queries)
    if count >= FEWEST_QUERIES:
        return ""
    what = "" if count == len(suite.queries) else "different "
    has = counted(count, f"{what}judged query", f"{what}judged queries")
    return (
        f"has {has}; tuning needs {FEWEST_QUERIES} or more, because with fewer a rare loss goes "
        "unnoticed"
    )


def check_candidates(observed: Observations) -> None:
    """Check that a reranker can gain anything."""
    qrels = observed.suite.qrels
    if not any(
        relevance_of(item, qrels[query]) > 0
        for query, items in observed.candidates.items()
        for item in items
    ):
        raise InputError(
            f"{observed.suite.name}: no relevant document is among the candidates of "
            f"{observed.stage}, so no reranker can gain anything; improve the first stage"
        )

"""Compares first stages and rerankers on one suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from secondpass import InputError
from secondpass.formats.errors import check_numbers
from secondpass.settings import describe
from secondpass.settings.arguments import explained
from secondpass.settings.messages import did_you_mean
from secondpass.types import Progress
from secondpass_evaluation.comparison import Comparison
from secondpass_evaluation.distinct import averaged, repetition_notes
from secondpass_evaluation.dry_run import ExpectedComparison, expected_of_services
from secondpass_evaluation.environment import machine, timestamp, versions
from secondpass_evaluation.first_stages import FirstStage, Retriever
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.judging.inference import (
    Corrected,
    CorrectedResult,
    corrected_difference,
    corrected_mean,
)
from secondpass_evaluation.measures import DEFAULT_MEASURES, evaluate
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.rerankers import NamedReranker, Spec, create_rerankers
from secondpass_evaluation.reranking import measure_reranker
from secondpass_evaluation.results import ComparisonData, Result
from secondpass_evaluation.significance import Difference, difference, fewest_queries, holm
from secondpass_evaluation.suites import Suite


@explained()
def compare(
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
    suite: Suite,
    *,
    retriever: Retriever | None = None,
    first_stages: Sequence[FirstStage] | None = None,
    behind: FirstStage | Sequence[FirstStage] | None = None,
    depth: int = 100,
    measures: Sequence[str] = DEFAULT_MEASURES,
    baseline: str | None = None,
    shuffles: int = 0,
    seed: int = 0,
    concurrency: int = 1,
    progress: Progress | None = None,
    journal: Journal | None = None,
    now: str | None = None,
    expected: Callable[[ExpectedComparison], object] | None = None,
) -> Comparison:
    """Measure first stages, and rerankers behind one or several of them, on a suite.

    A system that cannot run is listed in the result with the reason. A reranker all of whose
    rankings are ``unchanged`` is not measured, since its figures would be those of its first stage.
    Any other ranking that fails counts as the reranker returns it (under ``strict`` as it would
    without), and the result counts the failures. ``top_k`` of a reranker is not applied, so that
    its lists are as long as those of the searches.

    Args:
        rerankers: by name; or without names, which are then taken from presets and paths. A
            reranker behind ``hybrid`` is called ``hybrid+NAME``.
        suite: queries, judgements, and a corpus or candidates.
        retriever: searches the corpus. None: BM25, and the embedded model's vectors (extra
            ``embedded``) where a first stage needs them.
        first_stages: the first stages to measure. None: ``given`` if the suite has candidates,
            otherwise all three searches.
        behind: first stages whose candidates every reranker reranks, which are also measured
            themselves. None: the first of ``given``, ``hybrid``, ``lexical`` and ``vector`` that
            is measured and can run.
        depth: maximum number of candidates of each query.
        measures: names as in ir_measures; queries are compared by the first.
        baseline: the system that the others are compared with. None: the first stage ``behind``;
            with several, each reranker is compared with its own first stage.
        shuffles: how often each query's candidates are shuffled and reranked, to measure the effect
            of input order.
        seed: of the shuffles and the test.
        concurrency: number of rankings at a time. Times then include waiting for each other.
        progress: called after each query.
        journal: receives each finished ranking. Rankings that it has are reused, with their
            recorded time and usage, if the reranker's configuration can be serialised.
        now: the time for ``terms``, as a date or time in ISO 8601. None: the beginning of this day.
        expected: called before the first reranker runs, if any asks a language model or a rerank
            API, with their expected calls, tokens and cost, estimated from at most 100 rankings.

    Raises:
        InputError: an argument is wrong, or the retriever returns candidates without ids.
        ConfigurationError: a configuration is wrong.
        MeasureError: a measure is unknown.

    Other exceptions of the retriever pass through. Rerankers passed as objects stay loaded.
    """
    started = timestamp()
    measures = (measures,) if isinstance(measures, str) else tuple(dict.fromkeys(measures))
    check_numbers(shuffles=(shuffles, 0), seed=(seed, 0))
    observed = Observations(
        suite,
        retriever=retriever,
        first_stages=first_stages,
        behind=behind,
        depth=depth,
        concurrency=concurrency,
        progress=progress,
        journal=journal,
        now=now,
    )
    _check_measures(measures, suite)
    created, missing = create_rerankers(rerankers)
    cut = [name for name, (reranker, _) in created.items() if reranker.top_k is not None]
    for name in cut:  # it would be measured on shorter lists than the first stages
        reranker, owned = created[name]
        created[name] = NamedReranker(reranker.changed(top_k=None), owned)
    if not created and not missing:
        reason = "no reranker was given (on the command line: --preset or --config)"
        missing = {"rerank": reason}
    behinds = observed.behind
    names = [
        *observed.stages,
        *(f"{stage}+{name}" for name in (*created, *missing) for stage in behinds),
    ]
    if baseline is not None and baseline not in names:
        known = ", ".join(names)
        hint = did_you_mean(baseline, names)
        raise InputError(f"baseline: {describe(baseline)} is none of {known}{hint}")

    results = [observed.measure(stage, measures) for stage in observed.stages]
    first = dict(zip(observed.stages, results, strict=True))
    systems = {
        name: [observed.system(name, reranker, stage) for stage in behinds]
        for name, (reranker, _) in created.items()
    }
    if expected is not None:
        # Systems behind a first stage that could not run have no candidates and no calls.
        estimate = expected_of_services(
            [*chain.from_iterable(systems.values())], shuffles=shuffles, seed=seed
        )
        if estimate is not None:
            expected(estimate)
    for name, (reranker, owned) in created.items():
        try:
            for stage, system in zip(behinds, systems[name], strict=True):
                before = first[stage]
                if before.status == "not_run":
                    results.append(Result(system.name, "not_run", before.reason, stage))
                    continue
                results.append(
                    measure_reranker(system, before, measures, shuffles=shuffles, seed=seed)
                )
        finally:
            if owned:
                reranker.close()
    for name, reason in missing.items():
        results += [Result(f"{stage}+{name}", "not_run", reason, stage) for stage in behinds]

    base, notes = _baseline(results, baseline, behinds)
    comparison = Comparison(
        suite.name,
        suite.queries,
        suite.qrels,
        measures,
        base,
        tuple(results),
        {
            "depth": depth,
            "behind": behinds[0] if len(behinds) == 1 else list(behinds),
            "test": "randomization",
            "shuffles": shuffles,
            "seed": seed,
            "concurrency": concurrency,
            **({"now": observed.now} if any(one.terms for one, _ in created.values()) else {}),
            "date": started,
            "versions": versions(),
            "machine": machine(),
        },
        (*suite.notes, *repetition_notes(suite.queries), *notes, *_top_k_notes(cut)),
        suite.judged_by,
    )
    own = baseline is None and len(behinds) > 1
    comparison = replace(comparison, results=_with_differences(comparison, seed, own=own))
    return replace(comparison, corrected=corrected_results(comparison))


def _top_k_notes(names: Sequence[str]) -> list[str]:
    """That ``top_k`` of these rerankers has no effect."""
    if not names:
        return []
    return [
        f"top_k of {', '.join(names)} is not applied: all systems are measured on lists of the "
        "same length"
    ]


def _check_measures(measures: Sequence[str], suite: Suite) -> None:
    """Measure an artificial run, so that errors are raised before anything expensive."""
    if not measures:
        raise InputError("measures: give at least one")
    run = {query: dict.fromkeys(judged, 1.0) for query, judged in suite.qrels.items()}
    evaluate(run, suite.qrels, measures)


def _baseline(
    results: Sequence[Result], requested: str | None, behinds: Sequence[str]
) -> tuple[str | None, list[str]]:
    """The baseline's name, or None; and a note if the requested one has no figures."""
    ran = [result.name for result in results if result.status == "ran"]
    if requested in ran:
        return requested, []
    if requested is None:
        if len(behinds) > 1:
            return None, []
        return behinds[0] if behinds[0] in ran else next(iter(ran), None), []
    (status,) = (result.status for result in results if result.name == requested)
    what = "is not measured" if status == "not_measured" else "could not run"
    return None, [f"{requested} {what}, so nothing is compared with it"]


def _with_differences(comparison: Comparison, seed: int, *, own: bool) -> tuple[Result, ...]:
    """The results with their differences from the baseline, or from their own first stages.

    Queries with the same text count as one. p-values are corrected over all systems, for each
    measure separately.
    """
    if comparison.baseline is None and not own:
        return comparison.results
    values = {one.name: one.evaluation.per_query for one in comparison.ran if one.evaluation}
    bases = {result.name: comparison.base_of(result) or "" for result in comparison.ran}
    pairs = [(name, base) for name, base in bases.items() if name != base and base in values]
    differences: dict[str, dict[str, Difference]] = {name: {} for name, _ in pairs}
    for measure in comparison.measures:
        family = []
        for pair in pairs:
            both = [averaged(values[name][measure], comparison.queries) for name in pair]
            family.append(difference(measure, *both, seed=seed))
        corrected = holm([item.p for item in family])
        for (name, _), item, p in zip(pairs, family, corrected, strict=True):
            differences[name][measure] = replace(item, corrected_p=p)
    return tuple(
        replace(result, differences=differences.get(result.name, {}))
        for result in comparison.results
    )


def corrected_results(comparison: ComparisonData) -> tuple[CorrectedResult, ...]:
    """Corrected means of every measured system, and differences from its base, for every measure.

    Empty if people made the judgements, or a person has judged too few queries. A measure with the
    same value on all of the person's queries is left out.
    """
    judged = comparison.judged_by
    people = {} if judged is None else judged.people
    people = {query: grades for query, grades in people.items() if query in comparison.queries}
    if len(people) < fewest_queries():
        return ()
    by_model: dict[str, Mapping[str, Mapping[str, float]]] = {}
    by_people: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for result in comparison.ran:
        if result.evaluation is not None:
            run = {query: result.run.get(query, {}) for query in people}
            by_model[result.name] = result.evaluation.per_query
            by_people[result.name] = evaluate(run, people, comparison.measures).per_query
    corrected = []
    for result in comparison.ran:
        base = comparison.base_of(result)
        base = base if base in by_model and base != result.name else None
        for measure in comparison.measures:
            model, person = by_model[result.name][measure], by_people[result.name][measure]
            difference: Corrected | None = None
            with suppress(InputError):  # the values are equal, so there is no variance
                mean = corrected_mean(measure, model, person)
                if base is not None:
                    pairs = (model, by_model[base][measure]), (person, by_people[base][measure])
                    with suppress(InputError):
                        difference = corrected_difference(measure, *pairs)
                corrected.append(CorrectedResult(result.name, mean, base, difference))
    return tuple(corrected)

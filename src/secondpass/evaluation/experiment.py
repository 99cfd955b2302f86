"""The experiment: first stages and rerankers on one suite, with one set of measures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

from secondpass.config import resolve
from secondpass.errors import (
    ConfigurationError,
    InputError,
    MissingExtraError,
    SecondPassError,
)
from secondpass.evaluation.comparison import Comparison, Cost, Result
from secondpass.evaluation.measures import DEFAULT_MEASURES, evaluate, ranking_to_run
from secondpass.evaluation.reranked import Progress, Ranker, reranked
from secondpass.evaluation.significance import Test, difference, holm
from secondpass.evaluation.suites import Suite, with_title
from secondpass.formats.errors import check_numbers
from secondpass.reranker import Reranker
from secondpass.search.index import Index
from secondpass.search.retrieval import Mode
from secondpass.settings import describe
from secondpass.types import Candidate

FirstStage: TypeAlias = Literal["given", "vector", "lexical", "hybrid"]
"""``given`` are the suite's own candidates."""

Spec: TypeAlias = Reranker | Mapping[str, Any] | str | PathLike[str]
"""A reranker, a configuration, the path of one, or a preset's name."""

_BEST_FIRST: tuple[FirstStage, ...] = ("given", "hybrid", "lexical", "vector")
"""Of several first stages, the one that rerankers stand behind unless told otherwise."""


class Retriever(Protocol):
    """A first stage, such as :class:`~secondpass.search.retrieval.HybridRetriever`."""

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        """The best ``k`` candidates, best first.

        Raises:
            InputError: the mode is not to be had.
        """
        ...


@dataclass(frozen=True)
class _Found:
    """What a first stage found for each query, in what time; or why it could not be asked."""

    candidates: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def compare(
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
    suite: Suite,
    *,
    retriever: Retriever | None = None,
    first_stages: Sequence[FirstStage] | None = None,
    behind: FirstStage | None = None,
    depth: int = 100,
    measures: Sequence[str] = DEFAULT_MEASURES,
    baseline: str | None = None,
    test: Test = "randomization",
    shuffles: int = 0,
    seed: int = 0,
    concurrency: int = 1,
    skipped: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Measure first stages, and rerankers behind one of them, on a suite.

    A system that cannot run is part of the result all the same, with the reason. So is a reranker
    all of whose rankings are ``unchanged``; it is not measured, since its figures would be those
    of its first stage. Else a ranking that fails counts as the reranker leaves it (under ``strict``
    as it would be without), and is told.

    Args:
        rerankers: by name, or without names, which they then get from what they are. One behind
            ``hybrid`` is called ``hybrid+NAME``.
        suite: queries, judgements, and a corpus or candidates.
        retriever: searches the corpus; None makes one of words alone, by BM25.
        first_stages: which to measure; None takes ``given`` where the suite has candidates, else
            all that there are.
        behind: the first stage that rerankers stand behind, measured too; None takes the first of
            ``given``, ``hybrid``, ``lexical`` and ``vector`` that is measured and can run.
        depth: candidates of each query, at most.
        measures: names of ir_measures; queries are compared by the first.
        baseline: the system that differences are taken from; None takes that of ``behind``.
        test: of the differences, see :mod:`~secondpass.evaluation.significance`.
        shuffles: how often each query's candidates are shuffled to see how much the order that
            they come in matters.
        seed: of the shuffles and the test.
        concurrency: rankings side by side. Each one's time is then that among others.
        skipped: rerankers that could not be made, with the reasons.
        progress: is told how far it is.

    Raises:
        InputError: an argument is wrong, or the retriever returns candidates without ids.
        ConfigurationError: a configuration is wrong.
        MeasureError: a measure is unknown.
        MissingExtraError: ir_measures or scipy is not installed.

    Whatever the retriever raises on its own account passes through. Rerankers that are handed in
    ready stay loaded; those that are made here are closed.
    """
    measures = (measures,) if isinstance(measures, str) else tuple(dict.fromkeys(measures))
    check_numbers(
        depth=(depth, 1), concurrency=(concurrency, 1), shuffles=(shuffles, 0), seed=(seed, 0)
    )
    if not isinstance(suite, Suite):
        raise InputError(f"suite: give one of load_suite or make_suite, not {describe(suite)}")
    _check_measures(measures, test, suite)
    chosen = _stages(suite, first_stages, behind)
    named, absent = _named(rerankers)
    absent = {**absent, **(skipped or {})}
    if twice := named.keys() & absent.keys():
        raise InputError(f"skipped: {', '.join(sorted(twice))} is among the rerankers, too")
    if not named and not absent:
        absent = {"rerank": "no reranker was given"}
    search = _Search(suite, retriever, depth, progress or _untold)
    if behind is None:
        by_preference = [stage for stage in _BEST_FIRST if stage in chosen]
        runnable = [stage for stage in by_preference if not search.found(stage).reason]
        behind = (runnable or by_preference)[0]
    names = [*chosen, *(f"{behind}+{name}" for name in (*named, *absent))]
    if baseline is not None and baseline not in names:
        raise InputError(f"baseline: {baseline!r} is none of {', '.join(names)}")

    results = [_of_first_stage(suite, stage, search.found(stage), measures) for stage in chosen]
    before = results[chosen.index(behind)]
    for name, reranker in named.items():
        system = f"{behind}+{name}"
        if before.status == "skipped":
            results.append(Result(system, "skipped", f"{behind}: {before.reason}", behind))
            continue
        candidates = search.found(behind).candidates
        ranker = Ranker(
            system, reranker.ranker, suite, candidates, concurrency, progress or _untold
        )
        try:
            results.append(reranked(ranker, before, measures, shuffles=shuffles, seed=seed))
        finally:
            if reranker.ours:
                reranker.ranker.close()
    for name, reason in absent.items():
        results.append(Result(f"{behind}+{name}", "skipped", reason, behind))

    ran = [result.name for result in results if result.status == "ran"]
    notes = suite.notes
    if baseline is not None and baseline not in ran:
        failed = any(one.name == baseline and one.status == "not_measured" for one in results)
        told = "is not measured" if failed else "could not run"
        notes = (*notes, f"{baseline} {told}, so nothing is compared with it")
    base = baseline or (behind if behind in ran else next(iter(ran), None))
    base = base if base in ran else None
    settings = {
        "depth": depth,
        "behind": behind,
        "test": test,
        "shuffles": shuffles,
        "seed": seed,
        "concurrency": concurrency,
        "versions": _versions(),
    }
    return Comparison(
        suite.name,
        suite.queries,
        suite.qrels,
        measures,
        base,
        _with_differences(results, base, measures, test, seed),
        settings,
        notes,
    )


def _untold(_system: str, _done: int, _count: int) -> None:
    """The progress of a comparison that nobody watches."""


def _stages(
    suite: Suite, first_stages: Sequence[FirstStage] | None, behind: FirstStage | None
) -> tuple[FirstStage, ...]:
    """The first stages to measure, that of the rerankers among them."""
    known = get_args(FirstStage)
    asked: tuple[FirstStage, ...] = ("vector", "lexical", "hybrid")
    if first_stages is not None:
        asked = tuple(first_stages)
    elif suite.candidates is not None:
        asked = ("given",)
    also = () if behind is None else (behind,)
    chosen = tuple(dict.fromkeys((*asked, *also)))
    for stage in chosen:
        if stage not in known:
            raise InputError(f"first_stages, behind: must be of {', '.join(known)}, not {stage!r}")
    if not chosen:
        raise InputError("first_stages: give at least one")
    return chosen


# ---------------------------------------------------------------------- first stages


class _Search:
    """What each first stage finds, asked once."""

    def __init__(
        self, suite: Suite, retriever: Retriever | None, depth: int, progress: Progress
    ) -> None:
        self.suite = suite
        self.retriever = retriever
        self.depth = depth
        self.progress = progress
        self._found: dict[FirstStage, _Found] = {}

    def found(self, stage: FirstStage) -> _Found:
        if stage not in self._found:
            try:
                self._found[stage] = self._given() if stage == "given" else self._asked(stage)
            except SecondPassError as error:
                self._found[stage] = _Found(reason=str(error))
        return self._found[stage]

    def _given(self) -> _Found:
        given = self.suite.candidates
        if given is None:
            return _Found(reason="the suite has no candidates of its own")
        queries = self.suite.queries
        return _Found({query: tuple(given.get(query, ()))[: self.depth] for query in queries})

    def _asked(self, mode: Mode) -> _Found:
        if self.retriever is None:
            if self.suite.corpus is None:
                return _Found(reason="the suite has no corpus to search")
            from secondpass.search.retrieval import HybridRetriever

            self.retriever = HybridRetriever(self.suite.corpus, depth=self.depth)
        candidates, seconds = {}, {}
        count = len(self.suite.queries)
        for done, (query, text) in enumerate(self.suite.queries.items(), 1):
            began = time.perf_counter()
            candidates[query] = self.retriever.retrieve(text, self.depth, mode)[: self.depth]
            seconds[query] = time.perf_counter() - began
            if isinstance(self.retriever, Index):  # or rerankers would read less than the search
                candidates[query] = [with_title(one) for one in candidates[query]]
            self.progress(mode, done, count)
        return _Found(candidates, seconds)


def _of_first_stage(suite: Suite, stage: str, found: _Found, measures: Sequence[str]) -> Result:
    if found.reason:
        return Result(stage, "skipped", found.reason)
    run = ranking_to_run(found.candidates)
    return Result(
        stage,
        "ran",
        run=run,
        evaluation=evaluate(run, suite.qrels, measures),
        cost=Cost(found.seconds),
    )


# ---------------------------------------------------------------------- the rest


def _with_differences(
    results: Sequence[Result], base: str | None, measures: Sequence[str], test: Test, seed: int
) -> tuple[Result, ...]:
    """The results with their differences from the baseline, corrected for each other.

    All systems that are compared by one measure are one family of comparisons.
    """
    at_base = next((result.evaluation for result in results if result.name == base), None)
    compared = [
        result for result in results if result.evaluation is not None and result.name != base
    ]
    if at_base is None:
        return tuple(results)
    found: dict[str, dict[str, Any]] = {result.name: {} for result in compared}
    for measure in measures:
        family = [
            difference(
                measure,
                result.evaluation.per_query[measure],  # type: ignore[union-attr]
                at_base.per_query[measure],
                test=test,
                seed=seed,
            )
            for result in compared
        ]
        corrected = holm([one.p for one in family])
        for result, one, p in zip(compared, family, corrected, strict=True):
            found[result.name][measure] = replace(one, corrected_p=p)
    return tuple(
        replace(result, differences=found[result.name]) if result.name in found else result
        for result in results
    )


class _Named(NamedTuple):
    """A reranker, and whether it was made here."""

    ranker: Reranker
    ours: bool


def _named(
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
) -> tuple[dict[str, _Named], dict[str, str]]:
    """The rerankers by name, and why others cannot be made."""
    specs: dict[str, Spec] = {}
    # A mapping with a method is a configuration, unless that is what a reranker is called.
    method = rerankers.get("method") if isinstance(rerankers, Mapping) else None
    called = isinstance(method, Reranker) or (isinstance(method, Mapping) and "method" in method)
    if isinstance(rerankers, Mapping) and (method is None or called):
        specs = {str(name): spec for name, spec in rerankers.items()}
    else:
        if isinstance(rerankers, str | PathLike | Mapping | Reranker):
            rerankers = [rerankers]
        for spec in rerankers:
            name = wanted = _name_of(spec)
            number = 2
            while name in specs:
                name, number = f"{wanted}-{number}", number + 1
            specs[name] = spec
    made, absent = {}, {}
    for name, spec in specs.items():
        try:
            made[name] = _Named(resolve(spec), not isinstance(spec, Reranker))
        except MissingExtraError as error:
            absent[name] = str(error)
        except ConfigurationError as error:
            about = error.about if isinstance(spec, str | PathLike) else name
            raise ConfigurationError(error.problems, about) from None
    return made, absent


def _name_of(spec: Spec) -> str:
    return Path(spec).stem if isinstance(spec, str | PathLike) else "rerank"


def _check_measures(measures: Sequence[str], test: Test, suite: Suite) -> None:
    """Raise now what measuring and testing would raise when all has been run."""
    if not measures:
        raise InputError("measures: give at least one")
    found = {query: dict.fromkeys(judged, 1.0) for query, judged in suite.qrels.items()}
    evaluate(found, suite.qrels, measures)
    difference(measures[0], {"query": 1.0}, {"query": 1.0}, test=test)


def _versions() -> dict[str, str]:
    found = {}
    for name in ("secondpass", "ir-measures", "bm25s", "scipy", "sentence-transformers"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found

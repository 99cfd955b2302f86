"""What a reranker does to the results of a first stage, and what it takes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from secondpass.errors import NotSerializableError, RerankError, SecondPassError
from secondpass.evaluation.comparison import Change, Cost, Result, Stability, make_change
from secondpass.evaluation.measures import Evaluation, evaluate, ranking_to_run
from secondpass.evaluation.significance import TIE
from secondpass.evaluation.suites import Suite
from secondpass.formats.runs import Run
from secondpass.reranker import Reranker
from secondpass.types import Candidate, Ranking, Report

Progress: TypeAlias = Callable[[str, int, int], None]
"""Is told the system's name, how many of its queries are done, and how many there are."""

_SHOWN = 5
"""Queries that gain or lose most, and documents of each."""


@dataclass(frozen=True)
class Ranker:
    """A reranker on the candidates of every query."""

    name: str
    reranker: Reranker
    suite: Suite
    candidates: Mapping[str, Sequence[Candidate]]
    concurrency: int
    progress: Progress

    def rankings(
        self, candidates: Mapping[str, Sequence[Candidate]], label: str = ""
    ) -> dict[str, Ranking]:
        """A ranking for each query."""
        found: dict[str, Ranking] = {}
        for query, ranking in self._ranked(candidates):
            found[query] = ranking
            self.progress(self.name + label, len(found), len(candidates))
        return found

    def _ranked(
        self, candidates: Mapping[str, Sequence[Candidate]]
    ) -> Iterator[tuple[str, Ranking]]:
        def ranked(query: str) -> Ranking:
            try:
                return self.reranker.rerank(self.suite.queries[query], candidates[query])
            except RerankError as error:  # strict; its report says what happened
                return error.ranking

        if self.concurrency == 1:
            for query in candidates:
                yield query, ranked(query)
            return
        pool = ThreadPoolExecutor(self.concurrency)
        try:
            yield from zip(candidates, pool.map(ranked, candidates), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C nobody waits for the rest


def reranked(
    ranker: Ranker, before: Result, measures: Sequence[str], *, shuffles: int, seed: int
) -> Result:
    """The reranker's result, behind the first stage whose result is given."""
    reranker, qrels = ranker.reranker, ranker.suite.qrels
    config = _config_of(reranker)
    skipped = Result(ranker.name, "skipped", first_stage=before.name, config=config)
    try:
        reranker.warm_up()  # so that no query's time has it in it
    except Exception as error:
        told = str(error) if isinstance(error, SecondPassError) else type(error).__name__
        return replace(skipped, reason=f"no model can be loaded: {told}")
    try:
        rankings = ranker.rankings(ranker.candidates)
        reports = [ranking.report for ranking in rankings.values()]
        counts = _counts(reports, reranker)
        cost = _cost({query: ranking.report for query, ranking in rankings.items()})
        if reason := _not_measured(rankings.values(), counts["issues"]):
            failed = replace(skipped, status="not_measured", reason=reason)
            return replace(failed, cost=cost, **counts)
        run = ranking_to_run(rankings)
        stability = _stability(ranker, run, measures[0], shuffles, seed) if shuffles else None
    except SecondPassError as error:
        return replace(skipped, reason=str(error))
    after = evaluate(run, qrels, measures)
    gains, losses = _changes(ranker, before, run, after, measures[0])
    return Result(
        ranker.name,
        "ran",
        first_stage=before.name,
        config=config,
        run=run,
        evaluation=after,
        cost=cost,
        stability=stability,
        gains=gains,
        losses=losses,
        moves=_moves(ranker.suite, before.run, run),
        **counts,
    )


def _counts(reports: Sequence[Report], reranker: Reranker) -> dict[str, Any]:
    """How many rankings had which status, which issue code, and came from which fallback."""
    # A cascade that lacks a stage is degraded, too, and has the name of the whole.
    stages = getattr(reranker.method, "stages", None)
    own = reranker.method.name if stages else None
    return {
        "statuses": Counter(report.status for report in reports),
        "issues": Counter(
            code for report in reports for code in {issue.code for issue in report.issues}
        ),
        "fallbacks": Counter(
            report.method
            for report in reports
            if report.status == "degraded" and report.method is not None and report.method != own
        ),
    }


def _not_measured(rankings: Collection[Ranking], issues: Mapping[str, int]) -> str:
    """Why a reranker is not measured: it judged nothing; empty where it judged something.

    A ranking without candidates, or with one that the method leaves alone, is ``ok`` though nothing
    was judged in it. So it says nothing of whether the reranker works.
    """
    unchanged = sum(ranking.report.status == "unchanged" for ranking in rankings)
    if not unchanged or any(_judged(ranking) for ranking in rankings):
        return ""
    told = ", ".join(f"{code} ({count:,})" for code, count in sorted(issues.items()))
    return f"nothing was judged: {unchanged:,} of {len(rankings):,} rankings are unchanged" + (
        f"; issues: {told}" if told else ""
    )


def _judged(ranking: Ranking) -> bool:
    report = ranking.report
    if report.status != "ok":
        return report.status != "unchanged"
    # What the floor drops was judged.
    return "floor" in report.left_out or any(item.status == "scored" for item in ranking)


def _cost(reports: Mapping[str, Report]) -> Cost:
    asked = [report.usage for report in reports.values() if report.usage.calls]

    def told(name: str) -> Any:
        values = [getattr(usage, name) for usage in asked]
        return None if not values or None in values else sum(values)

    return Cost(
        {query: report.seconds for query, report in reports.items()},
        sum(usage.calls for usage in asked),
        sum(usage.pairs for usage in asked),
        told("input_tokens"),
        told("output_tokens"),
        told("cost"),
    )


def _changes(
    ranker: Ranker, before: Result, run: Run, after: Evaluation, measure: str
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """The queries that gain most, and those that lose most, the largest change first."""
    suite = ranker.suite
    new = after.per_query[measure]
    old = before.evaluation.per_query[measure] if before.evaluation else new
    gains = {query: new[query] - old[query] for query in suite.queries}

    def change(query: str) -> Change:
        return make_change(
            query,
            suite.queries[query],
            old[query],
            new[query],
            lists=(list(before.run.get(query, {})), list(run.get(query, {}))),
            texts={str(one.id): one.text for one in reversed(ranker.candidates[query])},
            relevance=suite.qrels[query],
            count=_SHOWN,
        )

    gained = sorted((one for one in gains if gains[one] > TIE), key=lambda one: -gains[one])
    lost = sorted((one for one in gains if gains[one] < -TIE), key=gains.__getitem__)
    return tuple(map(change, gained[:_SHOWN])), tuple(map(change, lost[:_SHOWN]))


def _moves(suite: Suite, before: Run, after: Run) -> tuple[tuple[int | None, int | None], ...]:
    moves = []
    for query, judged in suite.qrels.items():
        old = {document: rank for rank, document in enumerate(before.get(query, {}), 1)}
        new = {document: rank for rank, document in enumerate(after.get(query, {}), 1)}
        for document, relevance in judged.items():
            if relevance > 0 and (document in old or document in new):
                moves.append((old.get(document), new.get(document)))
    return tuple(moves)


def _stability(ranker: Ranker, usual: Run, measure: str, shuffles: int, seed: int) -> Stability:
    from scipy.stats import kendalltau

    rng = random.Random(seed)
    depth = ranker.reranker.depth
    taus: list[float] = []
    overlaps: list[float] = []
    means = []
    for number in range(1, shuffles + 1):
        shuffled, heads = {}, {}
        for query, candidates in ranker.candidates.items():
            # What is not judged keeps its place, or other candidates would be judged.
            head = list(candidates[:depth])
            rng.shuffle(head)
            shuffled[query] = [*head, *candidates[len(head) :]]
            heads[query] = {one.id for one in head}
        run = ranking_to_run(ranker.rankings(shuffled, f", shuffle {number} of {shuffles}"))
        for query, found in run.items():
            places = {document: place for place, document in enumerate(found)}
            # The tail agrees with itself, whatever the reranker does.
            common = [one for one in usual[query] if one in places and one in heads[query]]
            if len(common) > 1:
                tau, _ = kendalltau(range(len(common)), [places[one] for one in common])
                taus.append(float(tau))
            if best := list(usual[query])[:10]:
                overlaps.append(len(set(best).intersection(list(found)[:10])) / len(best))
        means.append(evaluate(run, ranker.suite.qrels, [measure]).mean[measure])
    return Stability(shuffles, _mean(taus), _mean(overlaps), measure, tuple(means))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


def _config_of(reranker: Reranker) -> Mapping[str, Any] | None:
    try:
        return reranker.to_config()
    except NotSerializableError:
        return None

"""Runs a reranker on the results of a first stage and measures it.

A blend is applied after scoring, so the rankings of every blend are computed from those of one. So
are those of a smaller depth, if the score of a candidate does not depend on the others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from secondpass import (
    Candidate,
    NotSerializableError,
    Ranked,
    Ranking,
    Report,
    Reranker,
    RerankError,
    SecondPassError,
)
from secondpass.concurrency.workers import in_threads
from secondpass.ranking.blending import Blend, with_weight
from secondpass.ranking.candidates import first_stage_scores, retrieval_score
from secondpass.ranking.methods import asks
from secondpass.ranking.partial_results import completed
from secondpass.ranking.scoring import TRUNCATED, scores_alone
from secondpass.settings import counted
from secondpass.types import Progress
from secondpass_evaluation.distinct import measured
from secondpass_evaluation.journal import Journal, ranking_key
from secondpass_evaluation.measures import Evaluation, ranking_to_run
from secondpass_evaluation.reading import Run, judged_id
from secondpass_evaluation.results import TEXT_LENGTH, Change, Cost, Result, Shown, Stability
from secondpass_evaluation.significance import TIE
from secondpass_evaluation.suites import Suite
from secondpass_evaluation.texts import shortened, with_plain_headings

N = TypeVar("N", int, float)

DEPTHS = (10, 20, 50, 100)


def means_by_depth(
    reranker: Reranker,
    rankings: Mapping[str, Ranking],
    candidates: Mapping[str, Sequence[Candidate]],
    suite: Suite,
    measure: str,
) -> dict[int, float]:
    """Depth -> mean of a measure, for depths below that of the rankings, and for that.

    Empty where it cannot be computed: scores depend on other candidates, a fallback ranked, or the
    order is not that of scores and blend alone (an ordering, terms, candidates that are left out).
    """
    method = reranker.method
    if reranker.terms:
        return {}
    longest = max(map(len, candidates.values()), default=0)
    own = min(reranker.depth or longest, longest)
    smaller = [depth for depth in DEPTHS if depth < own]
    if not smaller or not scores_alone(method):
        return {}
    for ranking in rankings.values():
        if not can_replay(ranking, method.name) or ranking.report.left_out:
            return {}
        order = replayed(ranking, reranker.blend, depth=own, scale=method.scale)
        if tuple(order) != ranking.order:
            return {}
    means = {}
    for depth in (*smaller, own):
        run = replayed_run(
            rankings, candidates, method.name, reranker.blend, depth=depth, scale=method.scale
        )
        means[depth] = measured(run, suite, [measure]).mean[measure]
    return means


@dataclass(frozen=True)
class SystemRun:
    """A reranker, and the candidates of every query that it reranks.

    The name is that in the journal and in progress reports. The caller loads and closes the
    reranker. ``now`` is the time for its terms.
    """

    name: str
    reranker: Reranker
    suite: Suite
    candidates: Mapping[str, Sequence[Candidate]]
    concurrency: int
    progress: Progress
    journal: Journal | None = None
    now: str | None = None

    def rankings(
        self, candidates: Mapping[str, Sequence[Candidate]], label: str = ""
    ) -> dict[str, Ranking]:
        """Rerank the candidates of each query; ``label`` follows the name in progress reports."""
        rankings: dict[str, Ranking] = {}
        reranker = self.reranker
        with ExitStack() as stack:
            if self.journal is not None:
                answers = self.journal.stored_answers(self.name + label)
                reranker = stack.enter_context(reranker.storing_answers(answers))
            for query, ranking in self._reranked(reranker, candidates, label):
                rankings[query] = ranking
                self.progress(self.name + label, len(rankings), len(candidates))
        return rankings

    def unfinished(
        self, candidates: Mapping[str, Sequence[Candidate]], label: str = ""
    ) -> list[tuple[str, Sequence[Candidate]]]:
        """The queries with their candidates whose ranking is not in the journal."""
        journal, key_of = self.journal, self._keys(label)
        return [
            (self.suite.queries[query], items)
            for query, items in candidates.items()
            if journal is None or key_of is None or key_of(query, items) not in journal
        ]

    def _keys(self, label: str) -> Callable[[str, Sequence[Candidate]], str] | None:
        """The keys of rankings in the journal; None if there is none, or they cannot have any."""
        config = None if self.journal is None else _config_of(self.reranker)
        if config is None:
            return None
        if self.reranker.terms:
            config = {**config, "now": self.now}
        texts = self.suite.queries
        return lambda query, items: ranking_key(
            self.name + label, config, query, texts[query], items
        )

    def _reranked(
        self, reranker: Reranker, candidates: Mapping[str, Sequence[Candidate]], label: str
    ) -> Iterator[tuple[str, Ranking]]:
        key_of = self._keys(label)

        def rerank(query: str) -> Ranking:
            text, items = self.suite.queries[query], candidates[query]
            key = "" if key_of is None else key_of(query, items)
            ranking = None
            if self.journal is not None and key:
                ranking = self.journal.find(key, text, items)
            if ranking is None:
                try:
                    ranking = reranker.rerank(text, items, now=self.now)
                except RerankError as error:  # under `strict`; the report has the details
                    ranking = error.ranking
                if self.journal is not None and key:
                    self.journal.add(key, ranking)
            return ranking

        if self.concurrency == 1:
            for query in candidates:
                yield query, rerank(query)
            return
        # Closed at once: after Ctrl-C, the remaining queries are not begun.
        with closing(in_threads(rerank, candidates, self.concurrency)) as rankings:
            yield from zip(candidates, rankings, strict=True)


def measure_reranker(
    system: SystemRun, before: Result, measures: Sequence[str], *, shuffles: int, seed: int
) -> Result:
    """The result of a reranker behind the first stage with the result ``before``."""
    reranker, suite = system.reranker, system.suite
    config = _config_of(reranker)
    not_run = Result(system.name, "not_run", first_stage=before.name, config=config)
    try:
        warm_up_quietly(reranker)  # keeps loading out of the first query's time
    except Exception as error:
        message = str(error) if isinstance(error, SecondPassError) else type(error).__name__
        return replace(not_run, reason=f"no model can be loaded: {message}")
    try:
        rankings = system.rankings(system.candidates)
        reports = {query: ranking.report for query, ranking in rankings.items()}
        counts = _counts(system, reports)
        cost = _cost(reports, asks=any(map(asks, reranker._methods)))
        if reason := judged_nothing(rankings.values(), counts["issues"]):
            failed = replace(not_run, status="not_measured", reason=reason)
            return replace(failed, cost=cost, **counts)
        never_ran = ranked_by_fallbacks(rankings.values(), reranker.method.name)
        run = ranking_to_run(rankings)
        stability = None
        if shuffles:
            stability = _stability(system, run, measures[0], shuffles=shuffles, seed=seed)
    except SecondPassError as error:
        return replace(not_run, reason=str(error))
    after = measured(run, suite, measures)
    gains, losses = largest_changes(
        suite, system.candidates, before, run, after, measure=measures[0]
    )
    return Result(
        system.name,
        "ran",
        never_ran,
        before.name,
        config=config,
        run=run,
        evaluation=after,
        cost=cost,
        stability=stability,
        gains=gains,
        losses=losses,
        depths=means_by_depth(reranker, rankings, system.candidates, suite, measures[0]),
        **counts,
    )


def warm_up_quietly(reranker: Reranker) -> bool:
    """Load the models; what fails is not logged twice, as the rankings log it, too."""
    return reranker.changed(log_level="debug").warm_up()


def warm_up_if_timed(reranker: Reranker) -> None:
    """Load the models before the clock of a deadline starts; what fails, the rankings report."""
    if reranker.limits.deadline is not None:
        with suppress(Exception):
            warm_up_quietly(reranker)


def _stability(
    system: SystemRun, unshuffled: Run, measure: str, *, shuffles: int, seed: int
) -> Stability:
    """Shuffle each query's candidates, and compare the rankings with the unshuffled ones."""
    from scipy.stats import kendalltau

    depth = system.reranker.depth
    heads: dict[str, set[str]] = {}
    for query, items in system.candidates.items():
        heads[query] = {str(item.id) for item in items[:depth]}
    taus: list[float] = []
    overlaps: list[float] = []
    means = []
    for label, shuffled in shuffled_candidates(
        system.candidates, depth=depth, shuffles=shuffles, seed=seed
    ):
        run = ranking_to_run(system.rankings(shuffled, label))
        for query, scores in run.items():
            ranks = {document: rank for rank, document in enumerate(scores)}
            # Not the tail, which never moves and would raise the correlation.
            common = [doc for doc in unshuffled[query] if doc in ranks and doc in heads[query]]
            if len(common) > 1:
                tau, _ = kendalltau(range(len(common)), [ranks[document] for document in common])
                taus.append(float(tau))
            if top := list(unshuffled[query])[:_TOP]:
                overlaps.append(len(set(top).intersection(list(scores)[:_TOP])) / len(top))
        means.append(measured(run, system.suite, [measure]).mean[measure])
    return Stability(shuffles, _mean_or_1(taus), _mean_or_1(overlaps), measure, tuple(means))


def _mean_or_1(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


def shuffled_candidates(
    candidates: Mapping[str, Sequence[Candidate]], *, depth: int | None, shuffles: int, seed: int
) -> Iterator[tuple[str, dict[str, list[Candidate]]]]:
    """The label and the candidates of each shuffle.

    The tail stays in place, so that the same candidates are judged.
    """
    rng = random.Random(seed)
    for number in range(1, shuffles + 1):
        shuffled = {}
        for query, items in candidates.items():
            head = list(items[:depth])
            rng.shuffle(head)
            shuffled[query] = [*head, *items[len(head) :]]
        yield f", shuffle {number} of {shuffles}", shuffled


def _counts(system: SystemRun, reports: Mapping[str, Report]) -> dict[str, Any]:
    """Numbers of rankings by status, reason, issue code and fallback, and what was truncated."""
    every, depth = reports.values(), system.reranker.depth
    total = sum(len(system.candidates[query][:depth]) for query in reports)
    truncated: set[tuple[str, int]] = set()
    codes: Counter[str] = Counter()
    for query, report in reports.items():
        codes.update({issue.code for issue in report.issues})
        for issue in report.issues:
            if issue.code == TRUNCATED:
                truncated.update((query, position) for position in issue.positions)
    return {
        "statuses": Counter(report.status for report in every),
        "issues": codes,
        "degraded_by": Counter(reason for report in every for reason in report.degraded_by),
        "fallbacks": Counter(
            report.method
            for report in every
            if "fallback" in report.degraded_by and report.method is not None
        ),
        "truncated": len(truncated) / total if total else 0.0,
    }


def judged_nothing(rankings: Collection[Ranking], issues: Mapping[str, int]) -> str:
    """Why a reranker is not measured: it judged nothing. Empty if it judged something.

    A ranking that is ``ok`` with nothing judged (no candidates, or a single one that the method
    leaves alone) is no evidence that the reranker works.
    """
    unchanged = sum(ranking.report.status == "unchanged" for ranking in rankings)
    if not unchanged or any(_judged(ranking) for ranking in rankings):
        return ""
    codes = ", ".join(f"{code} ({count:,})" for code, count in sorted(issues.items()))
    total = counted(len(rankings), "ranking")
    are = "is" if len(rankings) == 1 else "are"
    return f"nothing was judged: {unchanged:,} of {total} {are} unchanged" + (
        f"; issues: {codes}" if codes else ""
    )


def ranked_by_fallbacks(rankings: Collection[Ranking], method: str) -> str:
    """Why the method of this name never ran: fallbacks ranked all that was judged. Else empty."""
    judged = [ranking.report for ranking in rankings if _judged(ranking)]
    if not judged or not all("fallback" in report.degraded_by for report in judged):
        return ""
    codes = Counter(
        issue.code for report in judged for issue in report.issues if issue.method == method
    )
    if not codes or codes.keys() == {"model_not_loaded"}:
        return f"the model {method} could not be loaded" if codes else f"{method} never ran"
    issues = ", ".join(f"{code} ({count:,})" for code, count in sorted(codes.items()))
    return f"{method} never ran (issues: {issues})"


def _judged(ranking: Ranking) -> bool:
    report = ranking.report
    if report.status != "ok":
        return report.status != "unchanged"
    # Candidates below the threshold were judged.
    return "floor" in report.left_out or any(item.status == "scored" for item in ranking)


def _cost(reports: Mapping[str, Report], *, asks: bool) -> Cost:
    """The time and usage of all rankings. Calls count only if a service is asked."""
    usages = [report.usage for report in reports.values() if report.usage.calls]
    skipped = [report.skipped for report in reports.values() if report.skipped is not None]
    return Cost(
        {query: report.seconds for query, report in reports.items()},
        sum(usage.calls for usage in usages) if asks else 0,
        sum(usage.pairs for usage in usages),
        _total([usage.input_tokens for usage in usages]),
        _total([usage.output_tokens for usage in usages]),
        _total([usage.cost for usage in usages]),
        sum(report.usage.cached for report in reports.values()),
        len(skipped),
        sum(pass_.pairs for pass_ in skipped),
        units=_total([usage.units for usage in usages]),
        known=sum(usage.known for usage in usages),
        encoded=sum(usage.encoded for usage in usages),
        first_seen=frozenset(query for query, report in reports.items() if report.usage.encoded),
    )


def _total(numbers: Sequence[N | None]) -> N | None:
    """The sum; None if there are no numbers, or if one is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _config_of(reranker: Reranker) -> Mapping[str, Any] | None:
    try:
        return reranker.to_config()
    except NotSerializableError:
        return None


_QUERIES = 5
_DOCUMENTS = 5
_MOVED = 3
_TOP = 10


def largest_changes(
    suite: Suite,
    candidates: Mapping[str, Sequence[Candidate]],
    before: Result,
    run: Run,
    after: Evaluation,
    *,
    measure: str,
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """The five queries that gain most and the five that lose most, largest change first."""
    new = after.per_query[measure]
    old = before.evaluation.per_query[measure] if before.evaluation else new
    deltas = {query: new[query] - old[query] for query in suite.queries}
    cutoff = float(measure.partition("@")[2] or "inf")

    def change(query: str) -> Change:
        texts = {str(item.id): item.text for item in reversed(candidates[query])}
        documents_before = list(before.run.get(query, {}))
        documents_after = list(run.get(query, {}))
        relevance = suite.qrels[query]
        return Change(
            query,
            suite.queries[query],
            old[query],
            new[query],
            _top(documents_after, documents_before, texts, relevance, cutoff),
            _top(documents_before, documents_after, texts, relevance, cutoff),
        )

    by_change = sorted(deltas, key=deltas.__getitem__)
    lost = [query for query in by_change if deltas[query] < -TIE]
    best_first = sorted(deltas, key=deltas.__getitem__, reverse=True)
    gained = [query for query in best_first if deltas[query] > TIE]
    return tuple(map(change, gained[:_QUERIES])), tuple(map(change, lost[:_QUERIES]))


def _top(
    documents: Sequence[str],
    other: Sequence[str],
    texts: Mapping[str, str | None],
    relevance: Mapping[str, int],
    cutoff: float,
) -> tuple[Shown, ...]:
    """The first documents, and the relevant ones below whose rank is another in the other list.

    Of those within the cutoff of the measure in one of the lists, the three that stand highest.
    """
    ranks = {document: rank for rank, document in enumerate(other, 1)}
    moved = []
    for rank, document in enumerate(documents[_DOCUMENTS:], _DOCUMENTS + 1):
        highest = min(rank, ranks.get(document, rank))
        is_relevant = (relevance.get(judged_id(document, relevance)) or 0) > 0
        if is_relevant and ranks.get(document) != rank and highest <= cutoff:
            moved.append((highest, rank, document))
    chosen = sorted((rank, document) for _, rank, document in sorted(moved)[:_MOVED])
    return tuple(
        Shown(
            rank,
            document,
            shortened(with_plain_headings(texts.get(document) or ""), TEXT_LENGTH),
            relevance.get(judged_id(document, relevance)),
            ranks.get(document),
        )
        for rank, document in [*enumerate(documents[:_DOCUMENTS], 1), *chosen]
    )


def can_replay(ranking: Ranking, method: str) -> bool:
    """Whether the scores of a ranking come from the method, not from a fallback."""
    return ranking.report.method in {method, None}


def replayed(
    ranking: Ranking,
    blend: Blend | None,
    *,
    depth: int | None = None,
    scale: tuple[float, float] | None = None,
) -> list[int]:
    """The input positions in the order of a blend, computed from a ranking without one."""
    items = sorted(ranking, key=lambda item: item.position)
    head, tail = items[:depth], items[depth:] if depth is not None else []
    scored = [item for item in head if item.rerank_score is not None]
    if not scored:
        return [item.position for item in items]
    reranked = [_score(item, ranking) for item in scored]
    originals = [retrieval_score(item.candidate) for item in scored]
    # Some methods weight the original order themselves; such rankings are never journaled.
    own = ranking.trace.blend if ranking.trace is not None else None
    weighted = with_weight(blend, None if own is None else own.original, originals)
    if weighted is not None and weighted.by_scale:
        retrieved, _ = first_stage_scores([item.candidate for item in items])
        found = {item.position: score for item, score in zip(items, retrieved, strict=True)}
        originals = [found[item.position] for item in scored]
    if weighted is None:
        order = sorted(range(len(scored)), key=reranked.__getitem__, reverse=True)
    else:
        order = weighted.mix(originals, reranked, scale).order
    ranked = completed(
        [scored[index].position for index in order],
        [item.position for item in head],
        {item.position: item.status for item in head},
        ranking.report.issues,
    )
    return ranked + [item.position for item in tail]


def replayed_run(
    rankings: Mapping[str, Ranking],
    candidates: Mapping[str, Sequence[Candidate]],
    method: str,
    blend: Blend | None,
    *,
    depth: int | None = None,
    scale: tuple[float, float] | None = None,
    top_k: int | None = None,
) -> Run:
    """A run of rankings with another blend or depth; see :func:`replayed`.

    Rankings of a fallback are used unchanged, as their scores are not the method's.
    """
    run: Run = {}
    for query, ranking in rankings.items():
        order: Sequence[int] = ranking.order
        if can_replay(ranking, method):
            order = replayed(ranking, blend, depth=depth, scale=scale)
        scores = run[query] = {}
        for index, position in enumerate(order[:top_k]):
            scores.setdefault(str(candidates[query][position].id), float(len(order) - index))
    return run


def _score(item: Ranked, ranking: Ranking) -> float:
    """What the method ordered an item by: without a blend, its final score."""
    trace = ranking.trace
    score = item.final_score
    if trace is not None:
        score = (trace.order_scores or trace.rerank_score)[item.position]
    assert score is not None
    return score

"""The results of a comparison, with time and usage of each system, as plain records."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from secondpass.attributes import unchangeable
from secondpass.settings import counted, suggestion
from secondpass.settings.keys import with_hidden_keys
from secondpass.types import changed_fields
from secondpass_evaluation.judging.inference import CorrectedResult
from secondpass_evaluation.judging.labels import JudgedBy
from secondpass_evaluation.measures import Evaluation
from secondpass_evaluation.reading import Qrels, Run
from secondpass_evaluation.significance import Difference


@unchangeable
@dataclass(frozen=True, slots=True)
class Cost:
    """The time and usage of a system, over all queries.

    Attributes:
        seconds: query id -> seconds, for each query that was run. For a reranker, the reranking
            alone; for a first stage, the search.
        calls: 0 unless the reranker asks a language model or a rerank API. If it does, those of
            its local stages count, too.
        pairs: number of query-candidate pairs that methods judged.
        input_tokens, output_tokens: None where a method does not report them.
        cost: in the currency of the configured prices; None without prices.
        cached: answers from a response cache. They took no time, no call and no tokens here.
        skipped: queries for which the setting ``when`` left the pass out or made it shorter.
        saved_pairs: number of query-candidate pairs that were not judged for these.
        units: billed units other than tokens, such as the search units of rerank APIs; None where
            a method does not report them.
        known: passages whose encoding was kept from an earlier query, or in a store, which takes
            much less time than the others.
        encoded: passages that had to be encoded.
        first_seen: the queries with such passages, if ``known`` and ``encoded`` are counted.
    """

    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    calls: int = 0
    pairs: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    cached: int = 0
    skipped: int = 0
    saved_pairs: int = 0
    units: float | None = None
    known: int = 0
    encoded: int = 0
    first_seen: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def share_known(self) -> float:
        """Share of the passages whose encoding was kept, 0 to 1; 0 if none is encoded."""
        return self.known / (self.known + self.encoded) if self.known else 0.0

    def of_passages(self, *, encoded_before: bool) -> Mapping[str, float]:
        """Seconds of the queries whose passages were all encoded before, or of the others."""
        return {
            query: seconds
            for query, seconds in self.seconds.items()
            if (query in self.first_seen) is not encoded_before
        }

    @property
    def typical_seconds(self) -> Mapping[str, float]:
        """Seconds of each query; of those whose passages were encoded before, if most are such.

        While a small corpus is seen for the first time, the first queries take much longer.
        """
        before = self.of_passages(encoded_before=True)
        return before if self.known and 2 * len(before) >= len(self.seconds) else self.seconds

    @property
    def units_per_query(self) -> float | None:
        """Mean billed units of the queries that were run; None if they are not known."""
        if self.units is None or not self.seconds:
            return None
        return self.units / len(self.seconds)

    def __repr__(self) -> str:
        queries = counted(len(self.seconds), "query", "queries")
        return f"<Cost of {', '.join([queries, *changed_fields(self)])}>"

    def percentile(self, share: float) -> float | None:
        """Seconds within which this share (0 to 1) of the queries finished, by nearest rank.

        Always one of the measured times; None if no query was run.
        """
        return percentile(self.seconds.values(), share)


def percentile(values: Iterable[float], share: float) -> float | None:
    """The value that this share (0 to 1) of the values does not exceed, by nearest rank.

    Always one of the values; None if there is none.
    """
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered), max(1, math.ceil(share * len(ordered)))) - 1]


def percentiles(values: Collection[float]) -> dict[str, float | None]:
    """The percentiles that are reported: ``p50``, ``p95``, ``p99`` and ``max``."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: percentile(values, share) for name, share in shares.items()}


TEXT_LENGTH = 200
"""Maximum length of the text that :class:`Shown` keeps."""


@unchangeable
@dataclass(frozen=True, slots=True)
class Stability:
    """How much a ranking depends on the order of its input.

    The first ``depth`` candidates of each query are shuffled and reranked.

    Attributes:
        tau: mean rank correlation (Kendall's tau-b) of the shuffled with the unshuffled ranking.
            1: input order has no effect.
        overlap: mean share of the top 10 that stay in the top 10.
        means: mean of the measure over the queries, for each shuffle.
    """

    shuffles: int
    tau: float
    overlap: float
    measure: str
    means: tuple[float, ...]


@unchangeable
@dataclass(frozen=True, slots=True)
class Shown:
    """A document in a list of results: its rank from 1, and the beginning of its text.

    ``text`` has at most 200 characters, and ends with "…" if the document has more. A heading
    that repeats the title is left out.

    ``relevance`` is None if it is not judged; ``before``, its rank in the other list, if it is not
    there.
    """

    rank: int
    id: str
    text: str = field(repr=False)
    relevance: int | None
    before: int | None


@unchangeable
@dataclass(frozen=True, slots=True)
class Change:
    """A query on which a reranker is better or worse than its first stage.

    ``before`` and ``after`` are values of the measure; ``top_before`` and ``top`` the first five
    documents of the first stage and of the reranker, and up to three relevant ones below them whose
    rank changed.
    """

    query: str
    text: str = field(repr=False)
    before: float
    after: float
    top: tuple[Shown, ...] = field(repr=False)
    top_before: tuple[Shown, ...] = field(repr=False)


@unchangeable
@dataclass(frozen=True, slots=True)
class Result:
    """One system: a first stage, or a reranker behind one.

    Attributes:
        name: such as ``hybrid`` or ``hybrid+rerank``.
        status: ``ran``; ``not_run`` if it could not run; ``not_measured`` if it ran and all its
            rankings are ``unchanged``, so that its figures would be those of its first stage.
        reason: why it was not run or not measured; or, if fallbacks made all its rankings, why.
        first_stage: what it reranks; None for a first stage.
        config: of the reranker, where it can be serialised.
        run: query id -> document id -> score.
        evaluation: the measures of the run; None unless the status is ``ran``.
        statuses: number of rankings by report status.
        issues: number of rankings by issue code.
        degraded_by: number of ``degraded`` rankings by reason; one may have several.
        fallbacks: number of those by a fallback, by its method.
        truncated: share of the candidates within the depth that the model did not read whole
            (``text_truncated``), 0 to 1.
        stability: with ``shuffles`` only.
        differences: measure -> difference from the system ``Comparison.base_of``.
        gains, losses: the queries that gain and lose most against its first stage.
        depths: number of candidates -> mean of the first measure if only so many had been
            reranked, up to the depth of the run. Empty if that cannot be computed from its scores.
    """

    name: str
    status: Literal["ran", "not_run", "not_measured"]
    reason: str = ""
    first_stage: str | None = None
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    run: Run = field(default_factory=dict, repr=False)
    evaluation: Evaluation | None = field(default=None, repr=False)
    cost: Cost = field(default_factory=Cost)
    statuses: Mapping[str, int] = field(default_factory=dict)
    issues: Mapping[str, int] = field(default_factory=dict)
    degraded_by: Mapping[str, int] = field(default_factory=dict)
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    truncated: float = 0.0
    stability: Stability | None = None
    differences: Mapping[str, Difference] = field(default_factory=dict, repr=False)
    gains: tuple[Change, ...] = field(default=(), repr=False)
    losses: tuple[Change, ...] = field(default=(), repr=False)
    depths: Mapping[int, float] = field(default_factory=dict, repr=False)

    @property
    def failure_rate(self) -> float | None:
        """Share of the rankings that are not ``ok``; None for a first stage."""
        count = sum(self.statuses.values())
        return None if not count else (count - self.statuses.get("ok", 0)) / count

    @property
    def only_fallbacks(self) -> bool:
        """Whether fallbacks made all rankings, so that the figures are theirs."""
        return self.status == "ran" and bool(self.reason)

    def record(self) -> dict[str, Any]:
        """Everything except the run, for ``results.json``; keys are hidden."""
        system: dict[str, Any] = {
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "first_stage": self.first_stage,
            "config": None if self.config is None else with_hidden_keys(self.config),
        }
        if self.status == "not_run":
            return system
        if self.evaluation is not None:
            differences = {measure: asdict(item) for measure, item in self.differences.items()}
            system |= {
                "means": self.evaluation.mean,
                "per_query": self.evaluation.per_query,
                "differences": differences,
                "depths": {str(depth): mean for depth, mean in self.depths.items()},
            }
        usage = {**asdict(self.cost), "units_per_query": self.cost.units_per_query}
        seconds = usage.pop("seconds")
        usage.pop("first_seen")
        return {
            **system,
            "seconds": {
                **percentiles(seconds.values()),
                "total": math.fsum(seconds.values()),
            },
            "usage": usage,
            "statuses": dict(self.statuses),
            "issues": dict(self.issues),
            "degraded_by": dict(self.degraded_by),
            "fallbacks": dict(self.fallbacks),
            "truncated": self.truncated,
            "failure_rate": self.failure_rate,
            "stability": None if self.stability is None else asdict(self.stability),
            "gains": [asdict(change) for change in self.gains],
            "losses": [asdict(change) for change in self.losses],
        }

    def __repr__(self) -> str:
        means = {} if self.evaluation is None else self.evaluation.mean
        figures = ", ".join(f"{measure} {mean:.4f}" for measure, mean in means.items())
        return f"<Result {self.name!r}: {figures or f'{self.status}, {self.reason}'}>"


_SHOWN = 4
"""Systems that the repr of a comparison names."""


@dataclass(frozen=True)
class ComparisonData:
    """The fields of a :class:`~secondpass_evaluation.comparison.Comparison`, which reports read."""

    suite: str
    queries: Mapping[str, str] = field(repr=False)
    qrels: Qrels = field(repr=False)
    measures: tuple[str, ...]
    baseline: str | None
    results: tuple[Result, ...]
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    judged_by: JudgedBy | None = None
    corrected: tuple[CorrectedResult, ...] = ()

    def base_of(self, result: Result) -> str | None:
        """Name of the system that ``result.differences`` are taken from: the baseline, if any.

        Without one, a reranker's own first stage.
        """
        return self.baseline or result.first_stage

    def means(self, measure: str) -> dict[str, float]:
        """Name of each measured system -> mean of a measure.

        Raises:
            KeyError: the measure was not measured; the message names those that were.
        """
        if measure not in self.measures and self.ran:
            raise KeyError(f"no measure is named {measure!r}{suggestion(measure, self.measures)}")
        return {
            result.name: result.evaluation.mean[measure]
            for result in self.ran
            if result.evaluation is not None
        }

    def end_to_end(self, result: Result) -> dict[str, float]:
        """Seconds of search and reranking together, by query id; of the search for a first stage.

        Candidates that are part of the suite have no search time.
        """
        before: Mapping[str, float] = {}
        if result.first_stage is not None:
            stages = (stage for stage in self.results if stage.name == result.first_stage)
            before = next((stage.cost.seconds for stage in stages), {})
        return {
            query: seconds + before.get(query, 0.0)
            for query, seconds in result.cost.seconds.items()
        }

    def __getitem__(self, name: str) -> Result:
        """The system of this name.

        Raises:
            KeyError: there is none; the message names those that there are.
        """
        for result in self.results:
            if result.name == name:
                return result
        names = [result.name for result in self.results]
        raise KeyError(f"no system is named {name!r}{suggestion(name, names)}")

    @property
    def ran(self) -> tuple[Result, ...]:
        """The systems that ran and were measured."""
        return tuple(result for result in self.results if result.status == "ran")

    @property
    def not_measured(self) -> tuple[Result, ...]:
        """The rerankers that ran and judged nothing."""
        return tuple(result for result in self.results if result.status == "not_measured")

    @property
    def not_run(self) -> tuple[Result, ...]:
        """The systems that could not run."""
        return tuple(result for result in self.results if result.status == "not_run")

    def __repr__(self) -> str:
        measure = self.measures[0] if self.measures else ""
        means = [f"{name} {mean:.4f}" for name, mean in self.means(measure).items()]
        shown = means[:_SHOWN]
        if len(means) > _SHOWN:
            shown.append("…")
        parts = [f"{measure} of {', '.join(shown)}"] if means else []
        others = {"not measured": self.not_measured, "not run": self.not_run}
        parts += [f"{len(results):,} {status}" for status, results in others.items() if results]
        queries = counted(len(self.queries), "query", "queries")
        return f"<Comparison {self.suite!r}: {'; '.join([queries, *parts])}>"

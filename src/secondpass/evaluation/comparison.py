"""What a comparison of rankers found: figures, differences, costs, and the queries behind them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from secondpass.evaluation.measures import Evaluation
from secondpass.evaluation.significance import Difference
from secondpass.formats.runs import Qrels, Run

_BEGINNING = 200
"""Characters of a document that are shown."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a system took, over all queries.

    Attributes:
        seconds: of each query that was run, by its id; of the reranking alone where a system
            reranks, of the search where it does not.
        calls: how often methods were asked.
        pairs: query-candidate pairs that were put before a method.
        input_tokens: None where a method did not say.
        output_tokens: None where a method did not say.
        cost: in the currency of the configured prices; None where there are none.
    """

    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    calls: int = 0
    pairs: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None

    def percentile(self, share: float) -> float | None:
        """Seconds that this share of the queries stays within (0 to 1); None where none was run.

        It is a time that was measured: the one of the nearest rank, nothing in between.
        """
        ordered = sorted(self.seconds.values())
        if not ordered:
            return None
        return ordered[min(len(ordered), max(1, math.ceil(share * len(ordered)))) - 1]


@dataclass(frozen=True, slots=True)
class Stability:
    """How much a ranking depends on the order that its candidates came in.

    The head of each query's candidates was shuffled and ranked again.

    Attributes:
        shuffles: of each query.
        tau: mean rank correlation (Kendall's tau-b) of the shuffled with the unshuffled ranking; 1
            where the order that came in does not matter.
        overlap: mean share of the ten best that stay among the ten best.
        measure: whose spread follows.
        means: of the measure, one for each shuffle.
    """

    shuffles: int
    tau: float
    overlap: float
    measure: str
    means: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A document in a list of results.

    Attributes:
        rank: from 1.
        id: of the document.
        text: its beginning.
        relevance: as judged; None where it was not.
        before: its rank in the other list; None where it was not there.
    """

    rank: int
    id: str
    text: str = field(repr=False)
    relevance: int | None
    before: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """A query on which a system does better or worse than what it is compared with.

    Attributes:
        query: its id.
        text: what was searched for.
        before: the measure's value without the system.
        after: with it.
        top: its best documents.
        top_before: the best documents without it.
    """

    query: str
    text: str = field(repr=False)
    before: float
    after: float
    top: tuple[Shown, ...] = field(repr=False)
    top_before: tuple[Shown, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """One system: a first stage, or a reranker behind one.

    Attributes:
        name: such as ``hybrid`` or ``hybrid+rerank``.
        status: ``ran``; ``skipped`` where it could not; ``not_measured`` where it ran, and all its
            rankings are ``unchanged``: figures of it would be those of its first stage.
        reason: why it was skipped or is not measured.
        first_stage: what it reranks; None for a first stage.
        config: of the reranker, where it can be written out.
        run: query id -> document id -> score.
        evaluation: the measures of the run; None unless it ran.
        cost: what it took.
        statuses: how many rankings had which report status.
        issues: how many rankings had which issue code.
        fallbacks: how many of the ``degraded`` rankings come from which fallback method. Those that
            are missing here come from a cascade, a stage of which failed.
        stability: where it was asked for.
        differences: from the baseline, by measure.
        gains: the queries that gain most by it over its first stage.
        losses: those that lose most.
        moves: rank of each relevant document before and after; None where it is not in the list.
    """

    name: str
    status: Literal["ran", "skipped", "not_measured"]
    reason: str = ""
    first_stage: str | None = None
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    run: Run = field(default_factory=dict, repr=False)
    evaluation: Evaluation | None = field(default=None, repr=False)
    cost: Cost = Cost()
    statuses: Mapping[str, int] = field(default_factory=dict)
    issues: Mapping[str, int] = field(default_factory=dict)
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    stability: Stability | None = None
    differences: Mapping[str, Difference] = field(default_factory=dict, repr=False)
    gains: tuple[Change, ...] = field(default=(), repr=False)
    losses: tuple[Change, ...] = field(default=(), repr=False)
    moves: tuple[tuple[int | None, int | None], ...] = field(default=(), repr=False)

    @property
    def failure_rate(self) -> float | None:
        """Share of the rankings that are not ``ok``; None for a first stage."""
        count = sum(self.statuses.values())
        return None if not count else (count - self.statuses.get("ok", 0)) / count


@dataclass(frozen=True)
class Comparison:
    """Systems on a suite.

    Attributes:
        suite: its name.
        queries: texts by id.
        qrels: the judgements.
        measures: by name; the first is the one that queries are compared by.
        baseline: the name of the system that the others are compared with; None where none ran.
        results: the systems, in the order that they were asked for; behind them rerankers that
            could not be made.
        settings: how the comparison was made: depth, test, seed, versions, ….
        notes: what a reader of the figures should know.
    """

    suite: str
    queries: Mapping[str, str] = field(repr=False)
    qrels: Qrels = field(repr=False)
    measures: tuple[str, ...]
    baseline: str | None
    results: tuple[Result, ...]
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Result:
        """The system of this name.

        Raises:
            KeyError: there is none.
        """
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(name)

    @property
    def ran(self) -> tuple[Result, ...]:
        """The systems that were run and measured."""
        return tuple(result for result in self.results if result.status == "ran")

    @property
    def not_measured(self) -> tuple[Result, ...]:
        """The rerankers that were run, and judged nothing."""
        return tuple(result for result in self.results if result.status == "not_measured")

    @property
    def skipped(self) -> tuple[Result, ...]:
        """The systems that could not be run."""
        return tuple(result for result in self.results if result.status == "skipped")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the runs and moves, as plain values for JSON."""
        return {
            "suite": self.suite,
            "queries": len(self.queries),
            "measures": list(self.measures),
            "baseline": self.baseline,
            "settings": dict(self.settings),
            "notes": list(self.notes),
            "systems": [_system(result) for result in self.results],
        }

    def to_markdown(self) -> str:
        """Tables of quality, differences, cost, and skipped systems."""
        from secondpass.evaluation.report.tables import markdown

        return markdown(self)

    def to_html(self) -> str:
        """One page that needs nothing else, with plots."""
        from secondpass.evaluation.report.page import html

        return html(self)

    def _repr_html_(self) -> str:
        """The tables, in notebooks."""
        from secondpass.evaluation.report.page import fragment

        return fragment(self)

    def write(self, folder: Any) -> list[str]:
        """Write the figures as JSON, CSV, Markdown, HTML and a TREC run for each system.

        Args:
            folder: is made if need be.

        Returns:
            The paths written: ``results.json``, ``per_query.csv``, ``report.md``, ``report.html``,
            ``qrels.trec`` and ``runs/NAME.trec``.

        Raises:
            OSError: the folder cannot be written.
            FormatError: an id does not fit into TREC's files; those before are written.
        """
        from secondpass.evaluation.report.tables import write

        return write(self, folder)


def make_change(
    query: str,
    text: str,
    before: float,
    after: float,
    *,
    lists: tuple[Sequence[str], Sequence[str]],
    texts: Mapping[str, object],
    relevance: Mapping[str, int],
    count: int = 5,
) -> Change:
    """A change with the best documents of both lists, of which the first is the one before."""
    old, new = lists
    return Change(
        query,
        text,
        before,
        after,
        _shown(new, old, texts, relevance, count),
        _shown(old, new, texts, relevance, count),
    )


def _shown(
    documents: Sequence[str],
    other: Sequence[str],
    texts: Mapping[str, object],
    relevance: Mapping[str, int],
    count: int,
) -> tuple[Shown, ...]:
    ranks = {document: rank for rank, document in enumerate(other, 1)}
    return tuple(
        Shown(
            rank,
            document,
            _beginning(texts.get(document)),
            relevance.get(document),
            ranks.get(document),
        )
        for rank, document in enumerate(documents[:count], 1)
    )


def _beginning(text: object) -> str:
    return " ".join(text.split())[:_BEGINNING] if isinstance(text, str) else ""


def _system(result: Result) -> dict[str, Any]:
    cost = result.cost
    written: dict[str, Any] = {
        "name": result.name,
        "status": result.status,
        "reason": result.reason,
        "first_stage": result.first_stage,
        "config": result.config,
    }
    if result.status == "skipped":
        return written
    if result.evaluation is not None:
        written |= {
            "means": result.evaluation.mean,
            "per_query": result.evaluation.per_query,
            "differences": {
                measure: dataclasses.asdict(one) for measure, one in result.differences.items()
            },
        }
    return {
        **written,
        "seconds": {
            "p50": cost.percentile(0.5),
            "p95": cost.percentile(0.95),
            "p99": cost.percentile(0.99),
            "max": cost.percentile(1.0),
            "total": math.fsum(cost.seconds.values()),
        },
        "usage": {
            "calls": cost.calls,
            "pairs": cost.pairs,
            "input_tokens": cost.input_tokens,
            "output_tokens": cost.output_tokens,
            "cost": cost.cost,
        },
        "statuses": dict(result.statuses),
        "issues": dict(result.issues),
        "fallbacks": dict(result.fallbacks),
        "failure_rate": result.failure_rate,
        "stability": None if result.stability is None else dataclasses.asdict(result.stability),
        "gains": [dataclasses.asdict(change) for change in result.gains],
        "losses": [dataclasses.asdict(change) for change in result.losses],
    }

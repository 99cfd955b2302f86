"""The candidates of a suite's queries from first stages, and rerankers behind these."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

from secondpass import Candidate, InputError, Ranking, Reranker, SecondPassError
from secondpass.formats.errors import check_numbers
from secondpass.ranking.options import validate
from secondpass.settings import describe
from secondpass.settings.messages import did_you_mean
from secondpass.types import Progress, no_progress
from secondpass_evaluation.distinct import measured
from secondpass_evaluation.environment import today
from secondpass_evaluation.first_stages import (
    CorpusRetriever,
    FirstStage,
    Retriever,
    required_embedder,
)
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.measures import ranking_to_run
from secondpass_evaluation.reranking import SystemRun
from secondpass_evaluation.results import Cost, Result
from secondpass_evaluation.search.embedders import CorpusEmbedder
from secondpass_evaluation.search.index import Index
from secondpass_evaluation.search.retrieval import HybridRetriever, Mode
from secondpass_evaluation.suites import Suite, with_title

_PREFERENCE: tuple[FirstStage, ...] = ("given", "hybrid", "lexical", "vector")


@dataclass(frozen=True)
class Retrieved:
    """A first stage's candidates and times by query id, or the reason why it could not run."""

    candidates: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


class Observations:
    """Runs each first stage on the queries of a suite, at most once, and rerankers behind them.

    The arguments are those of :func:`~secondpass_evaluation.compare`.

    Attributes:
        stages: the first stages to measure.
        requested: those that the caller has named.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        retriever: Retriever | None = None,
        first_stages: Sequence[FirstStage] | None = None,
        behind: FirstStage | Sequence[FirstStage] | None = None,
        depth: int = 100,
        concurrency: int = 1,
        progress: Progress | None = None,
        journal: Journal | None = None,
        now: str | None = None,
    ) -> None:
        check_numbers(depth=(depth, 1), concurrency=(concurrency, 1))
        if not isinstance(suite, Suite):
            raise InputError(f"suite: give one of load_suite or make_suite, not {describe(suite)}")
        self._behind = () if behind is None else _checked("behind", behind)
        self.requested = self._behind
        stages: tuple[FirstStage, ...] = ("vector", "lexical", "hybrid")
        if first_stages is not None:
            stages = _checked("first_stages", first_stages)
            self.requested += stages
        elif suite.candidates is not None:
            stages = ("given",)
        self.stages = tuple(dict.fromkeys((*stages, *self._behind)))
        if not self.stages:
            raise InputError("first_stages: give at least one")
        self.suite = suite
        self.depth = depth
        # A day, so that a run that is continued on that day finds its rankings.
        self.now = today() if now is None else _checked_time(now)
        self.concurrency = concurrency
        self.progress = report = progress or no_progress
        self.journal = journal
        self._retrieved: dict[FirstStage, Retrieved] = {}
        if retriever is None and suite.corpus is not None:
            retriever = CorpusRetriever(
                suite.corpus, depth, lambda: CorpusEmbedder(required_embedder(), report)
            )
        self._retriever = retriever

    @cached_property
    def behind(self) -> tuple[FirstStage, ...]:
        """The first stages whose candidates are reranked.

        By default the first of ``given``, ``hybrid``, ``lexical``, ``vector`` that is measured and
        can run; if none can run, the first in that order.
        """
        if self._behind:
            return self._behind
        by_preference = [stage for stage in _PREFERENCE if stage in self.stages]
        runnable = (stage for stage in by_preference if not self.retrieved(stage).reason)
        return (next(runnable, by_preference[0]),)

    @property
    def stage(self) -> FirstStage:
        """The only first stage whose candidates are reranked, or the first."""
        return self.behind[0]

    @property
    def candidates(self) -> Mapping[str, Sequence[Candidate]]:
        """Query id -> the candidates of ``stage``, best first; an InputError if it cannot run."""
        retrieved = self.retrieved(self.stage)
        if retrieved.reason:
            raise InputError(f"{self.stage}: {retrieved.reason}")
        return retrieved.candidates

    def retrieved(self, stage: FirstStage) -> Retrieved:
        """The candidates of a first stage; the first call runs it."""
        if stage not in self._retrieved:
            try:
                retrieved = self._given() if stage == "given" else self._search(stage)
            except SecondPassError as error:
                retrieved = Retrieved(reason=str(error))
            self._retrieved[stage] = retrieved
        return self._retrieved[stage]

    def cheap_searches(self) -> Mapping[FirstStage, Mapping[str, Sequence[Candidate]]]:
        """The candidates of the other searches that need no vectors but those that exist."""
        if not isinstance(self._retriever, CorpusRetriever | HybridRetriever | Index):
            return {}
        others = [stage for stage in self.stages if stage != self.stage]
        if self.stage == "lexical" and isinstance(self._retriever, CorpusRetriever):
            others = []
        found = {stage: self.retrieved(stage) for stage in others}
        return {stage: it.candidates for stage, it in found.items() if not it.reason}

    def measure(self, stage: FirstStage, measures: Sequence[str]) -> Result:
        """The result of a first stage."""
        retrieved = self.retrieved(stage)
        if retrieved.reason:
            return Result(stage, "not_run", retrieved.reason)
        run = ranking_to_run(retrieved.candidates)
        evaluation = measured(run, self.suite, measures)
        return Result(stage, "ran", run=run, evaluation=evaluation, cost=Cost(retrieved.seconds))

    def system(self, name: str, reranker: Reranker, stage: FirstStage | None = None) -> SystemRun:
        """A reranker with the candidates of a first stage: by default ``stage``."""
        stage = stage or self.stage
        candidates = self.retrieved(stage).candidates
        settings = self.concurrency, self.progress, self.journal, self.now
        return SystemRun(f"{stage}+{name}", reranker, self.suite, candidates, *settings)

    def rankings(
        self,
        name: str,
        reranker: Reranker,
        *,
        candidates: Mapping[str, Sequence[Candidate]] | None = None,
        label: str = "",
    ) -> dict[str, Ranking]:
        """Query id -> ranking of its candidates."""
        lists = self.candidates if candidates is None else candidates
        return self.system(name, reranker).rankings(lists, label)

    def _given(self) -> Retrieved:
        candidates = self.suite.candidates
        if candidates is None:
            reason = "the suite has no candidates of its own; add candidates.jsonl"
            return Retrieved(reason=f"{reason}, or --run on the command line")
        queries = self.suite.queries
        return Retrieved(
            {query: tuple(candidates.get(query, ()))[: self.depth] for query in queries}
        )

    def _search(self, mode: Mode) -> Retrieved:
        retriever = self._retriever
        if retriever is None:
            raise InputError("the suite has no corpus to search")
        if isinstance(retriever, CorpusRetriever | Index):
            retriever.prepare(mode)  # before the clock starts
        candidates, seconds = {}, {}
        count = len(self.suite.queries)
        for done, (query, text) in enumerate(self.suite.queries.items(), 1):
            start = time.perf_counter()
            candidates[query] = retriever.retrieve(text, self.depth, mode)[: self.depth]
            seconds[query] = time.perf_counter() - start
            if isinstance(retriever, Index):  # it searches titles, so rerankers need them, too
                candidates[query] = [with_title(item) for item in candidates[query]]
            self.progress(mode, done, count)
        return Retrieved(candidates, seconds)


def _checked_time(now: object) -> str:
    """The argument ``now``; an InputError unless it is a date or time in ISO 8601."""
    if not isinstance(now, str):
        raise InputError(f"now: give a date or time in ISO 8601, not {describe(now)}")
    validate({"now": now})
    return now


def _checked(name: str, value: object) -> tuple[FirstStage, ...]:
    """One or several first stages, each once."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    stages: tuple[Any, ...] = tuple(value) if several else (value,)  # type: ignore[arg-type]
    known = get_args(FirstStage)
    for stage in stages:
        if stage not in known:
            hint = did_you_mean(stage, known)
            message = f"must be one of {', '.join(known)}, not {describe(stage)}{hint}"
            raise InputError(f"{name}: {message}")
    return tuple(dict.fromkeys(stages))

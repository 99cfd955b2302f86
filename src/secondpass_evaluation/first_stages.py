"""Chooses and runs first stages on the queries of a suite."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, get_args

from secondpass import Candidate, InputError, MissingExtraError, SecondPassError
from secondpass.settings import describe
from secondpass.types import Progress
from secondpass_evaluation.distinct import measured
from secondpass_evaluation.measures import ranking_to_run
from secondpass_evaluation.results import Cost, Result
from secondpass_evaluation.search.embedders import (
    CorpusEmbedder,
    EmbeddedEmbedder,
    Embedder,
    default_embedder,
)
from secondpass_evaluation.search.index import Index
from secondpass_evaluation.search.retrieval import HybridRetriever, Mode
from secondpass_evaluation.suites import Suite, with_title

FirstStage: TypeAlias = Literal["given", "vector", "lexical", "hybrid"]
"""``given``: the suite's own candidates. The others search its corpus."""

_PREFERENCE: tuple[FirstStage, ...] = ("given", "hybrid", "lexical", "vector")


class Retriever(Protocol):
    """Searches a corpus, such as :class:`~secondpass_evaluation.HybridRetriever`."""

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        """The best ``k`` candidates, best first.

        Raises:
            InputError: the mode is not supported.
        """
        ...


@dataclass(frozen=True)
class Retrieved:
    """A first stage's candidates and times by query id, or the reason why it could not run."""

    candidates: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


class CorpusRetriever:
    """Searches a corpus by words, and by vectors that are computed when a mode first needs them.

    Args:
        corpus: the passages.
        depth: number of candidates of each list that the mode ``hybrid`` fuses.
        make_embedder: called once.
    """

    def __init__(
        self, corpus: Sequence[Candidate], depth: int, make_embedder: Callable[[], Embedder]
    ) -> None:
        self.corpus = corpus
        self.depth = depth
        self.make_embedder = make_embedder
        self._retriever: HybridRetriever | None = None

    def prepare(self, mode: Mode) -> None:
        """Compute what a mode needs, and load the model.

        Raises:
            MissingExtraError: the packages that the mode needs are not installed.
            ModelLoadError: the embedded model cannot be loaded.
        """
        if self._retriever is None or mode not in self._retriever.modes:
            embedder = None if mode == "lexical" else self.make_embedder()
            self._retriever = HybridRetriever(self.corpus, embedder, depth=self.depth)
            if embedder is not None:
                embedder.embed([""])  # the vectors of the corpus may come from a cache

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        self.prepare(mode)
        assert self._retriever is not None
        return self._retriever.retrieve(query, k, mode)


def required_embedder() -> EmbeddedEmbedder:
    """The embedded model.

    Raises:
        MissingExtraError: the extra ``embedded`` is not installed.
    """
    embedder = default_embedder()
    if embedder is None:
        raise MissingExtraError("embedded", "searching by vectors")
    return embedder


class FirstStages:
    """Runs each first stage on the queries of a suite, at most once.

    Attributes:
        stages: the first stages to measure.
    """

    def __init__(
        self,
        suite: Suite,
        retriever: Retriever | None,
        depth: int,
        progress: Progress,
        *,
        first_stages: Sequence[FirstStage] | None = None,
        behind: FirstStage | Sequence[FirstStage] | None = None,
    ) -> None:
        self._behind = () if behind is None else _checked("behind", behind)
        requested: tuple[FirstStage, ...] = ("vector", "lexical", "hybrid")
        if first_stages is not None:
            requested = _checked("first_stages", first_stages)
        elif suite.candidates is not None:
            requested = ("given",)
        self.stages = tuple(dict.fromkeys((*requested, *self._behind)))
        if not self.stages:
            raise InputError("first_stages: give at least one")
        self.suite = suite
        self.depth = depth
        self.progress = progress
        self._retrieved: dict[FirstStage, Retrieved] = {}
        if retriever is None and suite.corpus is not None:
            retriever = CorpusRetriever(
                suite.corpus, depth, lambda: CorpusEmbedder(required_embedder(), progress)
            )
        self.retriever = retriever

    def retrieved(self, stage: FirstStage) -> Retrieved:
        """The candidates of a first stage; the first call runs it."""
        if stage not in self._retrieved:
            try:
                retrieved = self._given() if stage == "given" else self._search(stage)
            except SecondPassError as error:
                retrieved = Retrieved(reason=str(error))
            self._retrieved[stage] = retrieved
        return self._retrieved[stage]

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

    def measure(self, stage: FirstStage, measures: Sequence[str]) -> Result:
        """The result of a first stage."""
        retrieved = self.retrieved(stage)
        if retrieved.reason:
            return Result(stage, "not_run", retrieved.reason)
        run = ranking_to_run(retrieved.candidates)
        evaluation = measured(run, self.suite, measures)
        return Result(stage, "ran", run=run, evaluation=evaluation, cost=Cost(retrieved.seconds))

    def _given(self) -> Retrieved:
        candidates = self.suite.candidates
        if candidates is None:
            return Retrieved(reason="the suite has no candidates of its own")
        queries = self.suite.queries
        return Retrieved({q: tuple(candidates.get(q, ()))[: self.depth] for q in queries})

    def _search(self, mode: Mode) -> Retrieved:
        retriever = self.retriever
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


def _checked(name: str, value: object) -> tuple[FirstStage, ...]:
    """One or several first stages, each once."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    stages: tuple[Any, ...] = tuple(value) if several else (value,)  # type: ignore[arg-type]
    known = get_args(FirstStage)
    for stage in stages:
        if stage not in known:
            message = f"must be one of {', '.join(known)}, not {describe(stage)}"
            raise InputError(f"{name}: {message}")
    return tuple(dict.fromkeys(stages))

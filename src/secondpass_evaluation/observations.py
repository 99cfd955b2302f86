"""The candidates of a first stage on a suite, and rankings of them.

Calibration and tuning learn from these rankings: each item has its retrieval score, its rerank
score and its position in the first stage's list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from secondpass import Candidate, InputError, Ranking, Reranker
from secondpass.formats.shared import check_numbers
from secondpass.settings import describe
from secondpass.types import Progress, no_progress
from secondpass_evaluation.first_stages import FirstStage, FirstStages, Retriever
from secondpass_evaluation.journal import Journal
from secondpass_evaluation.reranking import SystemRun
from secondpass_evaluation.suites import Suite


class Observations:
    """The candidates of a suite's queries from one first stage, and rankings of them.

    The arguments are those of :func:`~secondpass_evaluation.compare`; ``stage`` is the name of the
    first stage.

    Raises:
        InputError: an argument is wrong, or no first stage can run.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        retriever: Retriever | None = None,
        behind: FirstStage | None = None,
        depth: int = 100,
        concurrency: int = 1,
        progress: Progress | None = None,
        journal: Journal | None = None,
    ) -> None:
        check_numbers(depth=(depth, 1), concurrency=(concurrency, 1))
        if not isinstance(suite, Suite):
            raise InputError(f"suite: give one of load_suite or make_suite, not {describe(suite)}")
        self.suite = suite
        self.depth = depth
        self.concurrency = concurrency
        self.progress = progress or no_progress
        self.journal = journal
        self._search = FirstStages(suite, retriever, depth, self.progress, behind=behind)
        self.stage = self._search.behind[0]

    @cached_property
    def candidates(self) -> Mapping[str, Sequence[Candidate]]:
        """Query id -> the first stage's candidates, best first."""
        retrieved = self._search.retrieved(self.stage)
        if retrieved.reason:
            raise InputError(f"{self.stage}: {retrieved.reason}")
        return retrieved.candidates

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

    def system(self, name: str, reranker: Reranker) -> SystemRun:
        """A reranker with the candidates of every query."""
        settings = self.concurrency, self.progress, self.journal
        label = f"{self.stage}+{name}"
        return SystemRun(label, reranker, self.suite, self.candidates, *settings)

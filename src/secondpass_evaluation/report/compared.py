"""A reranker, and what a verdict compares it with."""

from __future__ import annotations

from dataclasses import dataclass

from secondpass_evaluation.judging.inference import Corrected, CorrectedResult, excludes_zero
from secondpass_evaluation.report.text import ZERO
from secondpass_evaluation.results import ComparisonData, Result
from secondpass_evaluation.significance import Difference
from secondpass_evaluation.significance import difference as difference_of


@dataclass(frozen=True)
class Compared:
    """A reranker of a comparison, by the first measure, and the system it is compared with.

    That system (``base``) is the baseline, or without one the search that found its candidates.
    """

    comparison: ComparisonData
    result: Result

    @property
    def measure(self) -> str:
        return self.comparison.measures[0]

    @property
    def mean(self) -> float:
        return mean_of(self.result)

    @property
    def level(self) -> float:
        return self.level_of(self.result)

    @property
    def base_name(self) -> str | None:
        return self.comparison.base_of(self.result)

    @property
    def base(self) -> Result | None:
        return self._named(self.base_name)

    @property
    def base_is_its_search(self) -> bool:
        """Whether it is compared with the search that found its candidates."""
        return self.base_name == self.result.first_stage

    @property
    def difference(self) -> Difference:
        """From the base, by the judgements of the suite."""
        return self.result.differences[self.measure]

    @property
    def corrected(self) -> Corrected | None:
        """From the base, corrected by a person's judgements; None if there are none."""
        item = self._corrected_result(self.result)
        return None if item is None else item.difference

    @property
    def change(self) -> Difference | Corrected:
        """The difference that decides: the corrected one, if there is one."""
        return self.corrected or self.difference

    @property
    def systems(self) -> int:
        """Number of systems that the comparison compares with a base."""
        return sum(self.measure in result.differences for result in self.comparison.ran)

    @property
    def is_significant(self) -> bool:
        if self.corrected is None:
            return self.difference.is_significant
        return excludes_zero(self.corrected, self.systems)

    @property
    def is_significant_gain(self) -> bool:
        return self.change.mean > 0 and self.is_significant

    @property
    def timed(self) -> Result | None:
        """The system whose time the reranker's is compared with; None if the times say nothing."""
        base = self.base
        if base is not None and base.first_stage is None and not self.base_is_its_search:
            # Another search: what the reranking adds is compared with the search it adds it to.
            base = self._named(self.result.first_stage)
        if base is None or self.result.cost.cached or base.cost.cached:
            return None  # answers of a cache took no time
        return base

    @property
    def other_search(self) -> Result | None:
        """The best search alone, except the base; None if there is none."""
        searches = [
            result
            for result in self.comparison.ran
            if result.first_stage is None
            and result.name != self.base_name
            and result.evaluation is not None
        ]
        return max(searches, key=self.level_of, default=None)

    @property
    def other_search_as_good(self) -> Result | None:
        """``other_search``, if it is at least as good as the reranker.

        None, too, if the reranker makes things worse, or if there are too few queries.
        """
        search = self.other_search
        if search is None or self.change.mean <= -ZERO or not self.difference.enough_queries:
            return None
        return search if self.level_of(search) + ZERO >= self.level else None

    def level_of(self, result: Result) -> float:
        """The mean of a system; corrected by a person's judgements, if there are some."""
        item = self._corrected_result(result)
        return mean_of(result) if item is None else item.mean.mean

    def between(self, system: Result, other: Result) -> Difference | None:
        """The difference of a system from another by query; None if their queries differ."""
        values, others = (
            {} if result.evaluation is None else result.evaluation.per_query[self.measure]
            for result in (system, other)
        )
        if values.keys() != others.keys():
            return None
        confidence = self.difference.confidence
        return difference_of(self.measure, values, others, test="t", confidence=confidence)

    def _named(self, name: str | None) -> Result | None:
        return next((result for result in self.comparison.results if result.name == name), None)

    def _corrected_result(self, result: Result) -> CorrectedResult | None:
        for item in self.comparison.corrected:
            if (item.name, item.mean.measure) == (result.name, self.measure):
                return item
        return None


def mean_of(result: Result) -> float:
    """Mean by the first measure; 0 if the system was not measured."""
    if result.evaluation is None:
        return 0.0
    return next(iter(result.evaluation.mean.values()), 0.0)

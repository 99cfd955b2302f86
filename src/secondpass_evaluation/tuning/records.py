"""The result of tuning as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from secondpass.formats.runs import Run
from secondpass.ranking.blending import Blend
from secondpass.settings.keys import with_hidden_keys
from secondpass_evaluation.costs import percentile
from secondpass_evaluation.tuning.selection import Held


@dataclass(frozen=True, slots=True)
class Variant:
    """A reranker with one depth and one blend.

    Attributes:
        depth: number of candidates that the method judges; None: all.
        blend: None: the method's scores alone.
        config: the configuration of the reranker with this depth and blend.
        run: query id -> document id -> score.
        seconds: seconds of the second pass, for each query.
        cost: mean cost of a query, at the configured prices; 0 for local models, None if unknown.
    """

    depth: int | None
    blend: Blend | None
    config: Mapping[str, Any] = field(repr=False)
    run: Run = field(repr=False)
    seconds: tuple[float, ...] = field(repr=False)
    cost: float | None

    @property
    def label(self) -> str:
        """Depth and blend in words."""
        depth = "all candidates" if self.depth is None else f"depth {self.depth}"
        if self.blend is None:
            return f"{depth}, no blend"
        return f"{depth}, blend {self.blend.original:g} {self.blend.normalize}"

    @property
    def p95(self) -> float:
        """Seconds within which 95 % of the queries are reranked."""
        return percentile(self.seconds, 0.95) or 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One reranker that was tried, with the depth and blend that are best for it.

    Attributes:
        name: name of the reranker.
        status: ``adopted``; ``tried``; or ``not_tried``, with the reason.
        reason: why it was not adopted, or not tried.
        config: of the best variant; None if it was not tried.
        variants: number of depths and blends that were compared within the limits.
        setting: depth and blend of the best variant, in words.
        mean: mean of the measure over all queries. The variant was chosen on these, so the mean is
            likely to be too high; the held-out gain is not.
        held: gains on queries that had no part in the choice of the variant.
        seconds: 95th percentile of the seconds of the second pass.
        cost: of a query, at the configured prices; None if it is not known.
        statuses: number of rankings by report status, over all runs.
    """

    name: str
    status: Literal["adopted", "tried", "not_tried"]
    reason: str = ""
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    variants: int = 0
    setting: str = ""
    mean: float | None = None
    held: Held | None = None
    seconds: float | None = None
    cost: float | None = None
    statuses: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; keys are hidden."""
        record = {name: getattr(self, name) for name in self.__slots__}
        record["config"] = None if self.config is None else with_hidden_keys(self.config)
        record["held"] = None if self.held is None else asdict(self.held)
        record["statuses"] = dict(self.statuses)
        return record


@dataclass(frozen=True, slots=True)
class Point:
    """A variant that nothing beats in quality, time and cost at once.

    Attributes:
        name: name of the reranker, or of the first stage for the first stage alone.
        setting: depth and blend, in words.
        mean: of the measure over all queries.
        seconds: 95th percentile of the seconds of the second pass.
        cost: of a query; None if it is not known.
        config: None for the first stage.
    """

    name: str
    setting: str
    mean: float
    seconds: float
    cost: float | None
    config: Mapping[str, Any] | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; keys are hidden."""
        record = {name: getattr(self, name) for name in self.__slots__}
        record["config"] = None if self.config is None else with_hidden_keys(self.config)
        return record


@dataclass(frozen=True)
class TuningData:
    """The fields of a :class:`~secondpass_evaluation.tuning.tuning.Tuning`, which reports read."""

    suite: str
    queries: int
    stage: str
    measure: str
    baseline: float
    adopted: str | None
    config: Mapping[str, Any] | None = field(repr=False)
    gain: Held | None
    more_queries: int | None
    detectable: float | None
    trials: tuple[Trial, ...]
    front: tuple[Point, ...] = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Trial:
        """The reranker of this name.

        Raises:
            KeyError: there is none.
        """
        for trial in self.trials:
            if trial.name == name:
                return trial
        raise KeyError(name)

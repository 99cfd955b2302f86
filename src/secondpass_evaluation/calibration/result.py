"""The result of a calibration, and its configuration as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from secondpass import NotSerializableError, Problem, __version__
from secondpass.ranking.floors import Fit, Floor, Probabilities
from secondpass.settings import counted
from secondpass.settings.registry import dump_settings
from secondpass_evaluation.calibration.conformal import fewest_within, highest_share
from secondpass_evaluation.calibration.mapping import MappingFit
from secondpass_evaluation.provenance import write_config

_LOOSE = 0.05
"""By how much the share that is kept may exceed the share to keep, before this is said."""


@dataclass(frozen=True)
class Calibration:
    """A fitted threshold, and probabilities if they were requested.

    Shares of candidates are of those with a score, on the queries that the threshold was fitted on.
    Shares of lists are of each query by the threshold of the others.

    Attributes:
        floor: the threshold, and the settings that it is valid for; ``floor.nothing`` is None if
            the score finds too few lists without a relevant candidate.
        mapping: scores as probabilities, and their held-out losses; None if not requested.
        queries: number of queries with scores.
        candidates: number of their candidates with scores.
        relevant_kept: share of the relevant candidates that the threshold keeps, by ``fitted.per``.
        candidates_kept: share of all candidates that it keeps.
        flagged: share of the lists with a relevant candidate for which ``nothing_relevant`` is, or
            would be, True; None with too few queries.
        found_empty: share of the lists without their relevant candidates for which it is True.
        config: None if the reranker holds an object without a registered name.
    """

    suite: str
    first_stage: str
    floor: Floor
    mapping: MappingFit | None
    queries: int
    candidates: int
    relevant_kept: float
    candidates_kept: float
    flagged: float | None
    found_empty: float | None
    notes: tuple[str, ...] = ()
    config: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def fitted(self) -> Fit:
        """The settings that the threshold is valid for."""
        assert self.floor.fitted is not None
        return self.floor.fitted

    @property
    def probabilities(self) -> Probabilities | None:
        """The mapping of scores to probabilities."""
        return None if self.mapping is None else self.mapping.probabilities

    @property
    def bound(self) -> str:
        """The guarantee for a new query or candidate, and what it is for, in words.

        :mod:`~secondpass_evaluation.calibration.conformal` has its assumption and sources.
        """
        keep, fit = self.floor.keep or 0.0, self.fitted
        count = (fit.queries if fit.per == "query" else fit.documents) or 0
        high = highest_share(keep, count, fit.per)
        ties = "" if high == 1 else f", and at most {high:.1%} if no two scores are equal"
        again = (
            "Calibrate again if users ask other queries, or if the documents or the first stage "
            "change"
        )
        if fit.per == "query":
            return (
                f"for new queries of the same kind as these {count:,}, this threshold keeps at "
                f"least {keep * 100:g}% of the relevant candidates, as a mean over queries{ties}. "
                f"{again}"
            )
        return (
            f"for new relevant candidates of the same kind as these {count:,}, this threshold "
            f"keeps at least {keep * 100:g}% on average{ties}. If queries have several relevant "
            f"candidates, calibrate per query. {again}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        mapping = self.mapping
        return {
            "suite": self.suite,
            "first_stage": self.first_stage,
            "floor": dump_settings(self.floor, "floor"),
            "probabilities": mapping and dump_settings(mapping.probabilities, "probabilities"),
            "log_losses": mapping and dict(mapping.losses),
            "queries": self.queries,
            "candidates": self.candidates,
            "relevant_kept": self.relevant_kept,
            "candidates_kept": self.candidates_kept,
            "flagged": self.flagged,
            "found_empty": self.found_empty,
            "bound": self.bound,
            "notes": list(self.notes),
        }

    def write(self, path: str | PathLike[str], *, force: bool = False) -> Path:
        """Write the configuration with the threshold as YAML, and its evidence as comments.

        Raises:
            InputError: the file exists and ``force`` is not set, or the path is wrong.
            NotSerializableError: the reranker holds an object without a registered name.
            OSError: the file cannot be written.
        """
        if self.config is None:
            message = "the reranker holds an object without a registered name; copy the threshold"
            raise NotSerializableError([Problem((), message)], "write")
        lines = f"Calibrated by secondpass {__version__}.", *self.lines()
        return write_config(path, self.config, lines, force=force)

    def lines(self) -> Iterator[str]:
        """The result in sentences."""
        floor, fit = self.floor, self.fitted
        yield (
            f"Data: {self.suite}, first stage {self.first_stage}, "
            f"{counted(fit.queries or 0, 'query', 'queries')} with "
            f"{counted(fit.documents or 0, 'relevant candidate')}, of "
            f"{counted(self.queries, 'query', 'queries')} with "
            f"{counted(self.candidates, 'candidate')}."
        )
        yield f"Threshold: {floor.at:.9g} on the {floor.on} score. Bound: {self.bound}."
        yield (
            f"On the judged queries, it keeps {self.relevant_kept:.1%} of the relevant candidates "
            f"and {self.candidates_kept:.1%} of all candidates."
        )
        yield from self._looseness()
        if self.candidates_kept == 1:
            yield (
                "It drops nothing there: by this score, the relevant candidates do not differ "
                "enough from the others. Take another method, or a lower share to keep."
            )
        if floor.nothing is not None:
            found, flagged = self.found_empty or 0.0, self.flagged or 0.0
            yield (
                f"Nothing relevant: reported if all rerank scores are below {floor.nothing:.9g}. "
                f"On held-out queries, this finds {found:.1%} of the lists whose relevant "
                f"candidates were removed, and wrongly reports {flagged:.1%} of the complete lists."
            )
        if self.mapping is not None:
            losses = (f"{kind} {loss:.4f}" for kind, loss in self.mapping.losses.items())
            listed = ", ".join(losses)
            yield (
                f"Probabilities: {self.mapping.kind}. Log loss (lower is better) on held-out "
                f"queries, in nats: {listed}."
            )
        for note in self.notes:
            yield f"Note: {note}."

    def _looseness(self) -> Iterator[str]:
        """A sentence that few queries make the threshold loose, where they do."""
        fit, keep = self.fitted, self.floor.keep or 0.0
        count = (fit.queries if fit.per == "query" else fit.documents) or 0
        high = highest_share(keep, count, fit.per)
        enough = fewest_within(_LOOSE, fit.per)
        if high - keep > _LOOSE and count < enough:
            units = "queries" if fit.per == "query" else "relevant candidates"
            yield (
                f"{count:,} {units} are few, so the threshold is loose: to keep at least "
                f"{keep * 100:g}% of the relevant candidates, it may keep up to {high:.1%}, and "
                f"with them more of the others. {enough:,} or more would make it at most "
                f"{keep + _LOOSE:.1%}."
            )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        kept = f"keeps {self.relevant_kept:.1%} of the relevant candidates"
        kept += f", {self.candidates_kept:.1%} of all"
        queries = counted(self.queries, "query", "queries")
        return f"<Calibration {self.suite!r}: {queries}; threshold {self.floor.at:.4g}; {kept}>"

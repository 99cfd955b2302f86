"""The public result of :func:`~secondpass_evaluation.experiment.compare`, with its reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secondpass.formats.lines import AnyPath
from secondpass_evaluation.costs import Cost
from secondpass_evaluation.report import files, markdown, page
from secondpass_evaluation.results import Change, ComparisonData, Result, Shown, Stability

__all__ = ["Change", "Comparison", "Cost", "Result", "Shown", "Stability"]


@dataclass(frozen=True)
class Comparison(ComparisonData):
    """The results of all systems on a suite, and their reports.

    Attributes:
        suite: name of the suite.
        queries: query id -> text.
        qrels: query id -> document id -> relevance.
        measures: names; queries are compared by the first.
        baseline: name of the system that the others are compared with; None if none ran, or if
            rerankers stand behind several first stages, each compared with its own.
        results: the systems, in the order requested, then rerankers that could not be created.
        settings: of the comparison: depth, test, seed, date, versions, machine, ….
        notes: remarks on the data that affect the figures.
        judged_by: how a language model made the judgements; None: people did.
        corrected: means and differences corrected by a person's judgements, where a person has
            judged enough of the queries that a model has judged.
    """

    def to_dict(self) -> dict[str, Any]:
        """Everything except runs and moves, as plain values for JSON."""
        return files.as_dict(self)

    def to_markdown(self, *, details: bool = True) -> str:
        """The verdict, the tables, and the queries that changed most.

        Args:
            details: False: only the verdict and one table, a screen of text.
        """
        return markdown.report(self, details=details)

    def to_html(self) -> str:
        """One page without external resources; with plots if matplotlib is installed."""
        return page.page(self)

    def _repr_html_(self) -> str:
        """The verdict and the tables, in notebooks."""
        return page.fragment(self)

    def write(self, folder: AnyPath) -> list[str]:
        """Write the figures as JSON, CSV, Markdown, HTML and a TREC run for each system.

        Args:
            folder: created if it does not exist.

        Returns:
            The paths written: ``results.json``, ``per_query.csv``, ``report.md``, ``report.html``,
            ``qrels.trec`` (beside it ``qrels.judged-by.json`` if a model made the judgements) and
            ``runs/NAME.trec``.

        Raises:
            OSError: the folder cannot be written.
            FormatError: an id does not fit into TREC's files; the other files are written first.
        """
        return files.write(self, folder)

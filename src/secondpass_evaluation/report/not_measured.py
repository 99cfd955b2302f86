"""Sentences on the systems of a comparison that have no figures of their own."""

from __future__ import annotations

from secondpass_evaluation.report.text import listed
from secondpass_evaluation.results import ComparisonData, Result


def ranked_by_fallbacks(comparison: ComparisonData) -> list[str]:
    """Sentences on rerankers whose fallbacks alone scored anything, one for each reason."""
    groups: dict[tuple[str, tuple[str, ...]], list[Result]] = {}
    for result in comparison.ran:
        if result.only_fallbacks:
            names = tuple(sorted(result.fallbacks))
            groups.setdefault((result.reason, names), []).append(result)
    return [
        f"{listed([result.name for result in results])} {'was' if len(results) == 1 else 'were'} "
        f"not measured: {reason}. The figures are of the fallback{'s' if len(names) > 1 else ''} "
        f"{listed([*names])}."
        for (reason, names), results in groups.items()
    ]


def without_figures(comparison: ComparisonData, *, stages: bool) -> list[str]:
    """Sentences on the systems that did not run or judged nothing, one for each reason.

    With ``stages``, those in which no reranker is named, otherwise the others.
    """
    whats = {"not_run": "run", "not_measured": "measured"}
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in comparison.results:
        if result.status in whats:
            groups.setdefault((whats[result.status], result.reason), []).append(result)
    return [
        f"{listed([result.name for result in results])} {'is' if len(results) == 1 else 'are'} "
        f"not {what}: {reason}."
        for (what, reason), results in groups.items()
        if stages is all(result.first_stage is None for result in results)
    ]

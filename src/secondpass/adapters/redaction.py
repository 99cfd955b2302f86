"""Reports without what a server does not tell its clients."""

from __future__ import annotations

from dataclasses import replace

from secondpass.ranking.diagnostics import without_folders
from secondpass.ranking.result import Ranking
from secondpass.types import Issue


def without_messages(ranking: Ranking) -> Ranking:
    """The ranking with issues that have counts in place of their messages, and without paths.

    Messages of issues may name internal addresses, variables of keys and paths of models. A local
    model is named by the last part of its path.
    """
    report = ranking.report
    shown = replace(
        report,
        method=report.method and without_folders(report.method),
        issues=tuple(
            replace(
                issue, message=_count(issue), method=issue.method and without_folders(issue.method)
            )
            for issue in report.issues
        ),
        engines=tuple(
            replace(engine, method=without_folders(engine.method)) for engine in report.engines
        ),
    )
    return ranking if shown == report else replace(ranking, report=shown)


def _count(issue: Issue) -> str:
    count = len(issue.positions)
    about = "all documents" if not count else "1 document" if count == 1 else f"{count} documents"
    return f"concerns {about}; the log of the server has the message"

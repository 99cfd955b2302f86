"""Issues as clients of a server may see them."""

from __future__ import annotations

from dataclasses import replace

from secondpass.types import Issue, Ranking


def without_messages(ranking: Ranking) -> Ranking:
    """The ranking with issues that have counts in place of their messages.

    Messages of issues may name internal addresses, variables of keys and paths of models.
    """
    report = ranking.report
    if not report.issues:
        return ranking
    issues = tuple(replace(issue, message=_count(issue)) for issue in report.issues)
    return replace(ranking, report=replace(report, issues=issues))


def _count(issue: Issue) -> str:
    count = len(issue.positions)
    about = "all documents" if not count else "1 document" if count == 1 else f"{count} documents"
    return f"concerns {about}; the log of the server has the message"

"""Ends a benchmark whose rankings are not what it says that it measures.

A doubtful model, a fallback and a list that was not reranked take another time and have another
quality, and the figures do not show it.
"""

from __future__ import annotations

from collections.abc import Collection

from secondpass import Report


def check(report: Report, expected: Collection[str] = ()) -> None:
    """Exit unless a ranking is ``ok``.

    Args:
        report: of the ranking.
        expected: codes of issues that are part of what is measured. A ranking with another status
            passes if it has issues, and all of them are among these.

    Raises:
        SystemExit: with the status, the method and the issues.
    """
    codes = {issue.code for issue in report.issues}
    if report.status == "ok" or (codes and codes <= {*expected}):
        return
    issues = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
    raise SystemExit(f"a ranking by {report.method} is {report.status}: {issues or 'no issue'}")

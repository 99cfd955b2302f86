"""The summary of ``secondpass rerank``: statuses, issues, local models, tokens, units and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from secondpass.ranking.result import Ranking
from secondpass.settings import counted

_STATUSES = ("ok", "partial", "degraded", "unchanged")
_INPUT, _OUTPUT, _COST = "input tokens", "output tokens", "cost in 1e-12"
_REPORTED, _PRICED = "rankings with tokens", "rankings with cost"
_UNITS, _BILLED = "billed units in 1e-6", "rankings with billed units"
_SKIPPED, _SAVED = "skipped queries", "skipped pairs"
_CUT, _BEYOND = "queries beyond the depth", "candidates beyond the depth"
_NOTHING = "nothing relevant"
_AGAIN = {
    "cached": "cached answers",
    "known": "passages encoded before",
    "encoded": "passages encoded",
    "retries": "retries",
    "repairs": "repairs",
}
_COST_UNIT, _PART = 1e-12, 1e-6
"""Sums are integers, so that a resumed output has the sums of an uninterrupted one."""


def count(rankings: Sequence[Ranking]) -> Counter[str]:
    """How many rankings have each status, issue and engine; and their sums.

    Tokens, billed units and cost are summed over the rankings that report them.
    """
    counts: Counter[str] = Counter()
    for report in (ranking.report for ranking in rankings):
        counts[report.status] += 1
        counts.update(f"degraded by {reason}" for reason in report.degraded_by)
        counts.update(f"issue {code}" for code in {issue.code for issue in report.issues})
        counts.update(
            f"engine {engine.method} on {engine.backend}, {counted(engine.threads, 'thread')}, "
            f"computed in {engine.precision}"
            for engine in report.engines
        )
        if report.nothing_relevant:
            counts[_NOTHING] += 1
        if report.skipped is not None:
            counts[_SKIPPED] += 1
            counts[_SAVED] += report.skipped.pairs
        if report.beyond_depth:
            counts[_CUT] += 1
            counts[_BEYOND] += report.beyond_depth
        usage = report.usage
        for name in _AGAIN:
            if number := getattr(usage, name):
                counts[name] += number
        if usage.input_tokens is not None or usage.output_tokens is not None:
            counts[_INPUT] += usage.input_tokens or 0
            counts[_OUTPUT] += usage.output_tokens or 0
            counts[_REPORTED] += 1
        if usage.units is not None:
            counts[_UNITS] += round(usage.units / _PART)
            counts[_BILLED] += 1
        if usage.cost is not None:
            counts[_COST] += round(usage.cost / _COST_UNIT)
            counts[_PRICED] += 1
    return counts


def beyond_depth(counts: Counter[str]) -> int:
    """The number of candidates that were not scored because they stand beyond the depth."""
    return counts[_BEYOND]


def summary(
    total: int, counts: Counter[str], seconds: float, *, done: int = 0, output: object = None
) -> str:
    """One line about ``total`` rankings with these counts.

    ``done`` is the number of those that the ``output`` had before.
    """
    statuses = ", ".join(f"{counts[status]:,} {status}" for status in _STATUSES)
    if not done:
        line = f"{_queries(total)} in {seconds:.1f} s: {statuses}"
    elif done < total:
        now = f"of these, ranked now: {total - done:,} in {seconds:.1f} s"
        line = f"{_queries(total)}; {now}; in all: {statuses}"
    else:
        line = f"{output} is complete: {_queries(total)}, none ranked now; in all: {statuses}"
    for kind, label in (
        ("degraded by", "degraded by"),
        ("issue", "issues"),
        ("engine", "models"),
    ):
        items = [
            f"{name.removeprefix(f'{kind} ')}{_how_many(kind, number, total)}"
            for name, number in counts.most_common()
            if name.startswith(f"{kind} ")
        ]
        if items:
            line += f"; {label}: {', '.join(items)}"
    line += "".join(_not_scored(counts, total))
    if nothing := counts[_NOTHING]:
        line += f"; nothing relevant: {nothing:,}"
    for name, text in _AGAIN.items():
        if counts[name]:
            line += f"; {text}: {counts[name]:,}"
    if reported := counts[_REPORTED]:
        tokens = f"{counts[_INPUT]:,} in, {counts[_OUTPUT]:,} out"
        line += f"; tokens: {tokens}{_share(reported, total)}"
    if billed := counts[_BILLED]:
        line += f"; billed units: {counts[_UNITS] * _PART:,.10g}{_share(billed, total)}"
    if priced := counts[_PRICED]:
        line += f"; cost: {counts[_COST] * _COST_UNIT:.4g}{_share(priced, total)}"
    return line


def not_reranked(total: int, counts: Counter[str], options: Sequence[str] = ()) -> str:
    """What to know if rankings have the order of the input; empty if none has.

    ``options`` are those that make this an error.
    """
    unchanged = counts["unchanged"]
    if not unchanged:
        return ""
    hint = f" ({' or '.join(options)} makes this an error)" if options else ""
    if unchanged == total:
        return f"nothing was reranked: the order is the input's{hint}"
    return f"{unchanged:,} of {_queries(total)} kept the order of the input{hint}"


def _how_many(kind: str, number: int, total: int) -> str:
    if kind == "engine":
        return "" if number == total else f" (in {number:,} of {_queries(total)})"
    return f" ({number:,})"


def _not_scored(counts: Counter[str], total: int) -> Iterator[str]:
    """What was left unscored by settings: by ``when``, and by the depth."""
    if counts[_SKIPPED]:
        yield f"; skipped: {_queries(counts[_SKIPPED])}, {counted(counts[_SAVED], 'pair')}"
    if cut := counts[_CUT]:
        of_these = "" if cut == total else f" of {_queries(cut)}"
        yield f"; beyond the depth, not scored: {counted(counts[_BEYOND], 'candidate')}{of_these}"


def _share(reported: int, total: int) -> str:
    """The number of queries that a sum covers, if not all."""
    return "" if reported == total else f" (reported for {reported:,} of {_queries(total)})"


def _queries(number: int) -> str:
    return f"{number:,} {'query' if number == 1 else 'queries'}"

"""The tables of a comparison's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from secondpass.evaluation.report.parts import Cell, table
from secondpass.evaluation.report.tables import (
    best_means,
    faults_told,
    in_milliseconds,
    number,
    p_value,
    spread,
)
from secondpass.evaluation.report.verdict import is_sure

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Comparison
    from secondpass.evaluation.significance import Difference

_Row: TypeAlias = list[str | Cell]

_NONE = "\N{EN DASH}"


def quality(comparison: Comparison, *, inline: bool = False) -> str:
    """The means of every system."""
    measured = [(one, one.evaluation.mean) for one in comparison.ran if one.evaluation is not None]
    if not measured:
        return ""
    best = best_means(comparison)
    rows: list[_Row] = [
        [
            one.name,
            *(
                Cell(f"{mean[name]:.4f}", best=mean[name] == best.get(name))
                for name in comparison.measures
            ),
        ]
        for one, mean in measured
    ]
    return table("Quality", ["system", *comparison.measures], rows, inline=inline)


def differences(comparison: Comparison, *, inline: bool = False) -> str:
    """Every system against the baseline by every measure."""
    found = [(one.name, each) for one in comparison.ran for each in one.differences.values()]
    if not found:
        return ""
    rows: list[_Row] = []
    for name, one in found:
        tone = ""
        if is_sure(one):
            tone = "gain" if one.mean > 0 else "loss"
        interval = (
            _NONE if one.low is None or one.high is None else f"{one.low:+.4f} to {one.high:+.4f}"
        )
        rows.append(
            [
                name,
                one.measure,
                Cell(f"{one.mean:+.4f}", tone),
                Cell(interval, tone),
                p_value(one.p),
                Cell(p_value(one.corrected_p), tone),
                _beyond_chance(one, tone),
                f"{one.wins} / {one.ties} / {one.losses}",
            ]
        )
    interval = f"{found[0][1].confidence:.0%} interval"
    head = ["system", "measure", "difference", interval, "p", "corrected p", "beyond chance"]
    return table(
        f"Differences from {comparison.baseline}",
        [*head, "won / tied / lost"],
        rows,
        words=(1,),
        inline=inline,
    )


def _beyond_chance(one: Difference, tone: str) -> str | Cell:
    if not one.enough_queries:
        return "too few queries"
    return _NONE if one.corrected_p is None else Cell("yes" if is_sure(one) else "no", tone)


def costs(comparison: Comparison, *, inline: bool = False) -> str:
    """Times, calls, tokens, money, and how often a ranking was not ok."""
    rows: list[_Row] = []
    for one in comparison.ran:
        cost, rate = one.cost, one.failure_rate
        times = [cost.percentile(share) for share in (0.5, 0.95)]
        rows.append(
            [
                one.name,
                *map(in_milliseconds, times),
                number(cost.calls),
                number(cost.pairs),
                number(cost.input_tokens),
                number(cost.output_tokens),
                number(cost.cost, 4),
                _NONE if rate is None else Cell(f"{rate:.1%}", "loss" if rate else ""),
            ]
        )
    times_head = ["p50 ms", "p95 ms"]
    head = ["system", *times_head, "calls", "pairs", "tokens in", "tokens out", "cost", "not ok"]
    return table("Cost", head, rows, inline=inline) if rows else ""


def faults(comparison: Comparison, *, inline: bool = False) -> str:
    """How rankings ended, and what they reported, where any was not ok or reported anything."""
    rows: list[_Row] = []
    for one in comparison.results:
        if one.failure_rate or one.issues:
            statuses, issues = faults_told(one)
            rows.append([one.name, statuses, issues or _NONE])
    head = ["system", "rankings", "issues"]
    return table("Faults", head, rows, words=(1, 2), inline=inline) if rows else ""


def stability(comparison: Comparison, *, inline: bool = False) -> str:
    """How much the order that came in matters."""
    rows: list[_Row] = [
        [
            one.name,
            f"{found.tau:.3f}",
            f"{found.overlap:.3f}",
            spread(found),
            number(found.shuffles),
        ]
        for one in comparison.ran
        if (found := one.stability) is not None
    ]
    head = ["system", "Kendall's tau", "ten best kept", "measure when shuffled", "shuffles"]
    return table("Sensitivity to the order", head, rows, inline=inline) if rows else ""


def not_measured(comparison: Comparison, *, inline: bool = False) -> str:
    """The rerankers that judged nothing, with what they reported."""
    rows: list[_Row] = [[one.name, one.reason] for one in comparison.not_measured]
    label = "Systems that are not measured"
    return table(label, ["system", "reason"], rows, words=(1,), inline=inline) if rows else ""


def skipped(comparison: Comparison, *, inline: bool = False) -> str:
    """The systems that could not be run, with the reasons."""
    rows: list[_Row] = [[one.name, one.reason] for one in comparison.skipped]
    label = "Skipped systems"
    return table(label, ["system", "reason"], rows, words=(1,), inline=inline) if rows else ""

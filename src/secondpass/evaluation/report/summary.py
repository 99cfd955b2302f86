"""The top of a comparison's page: the verdict, and its figures."""

from __future__ import annotations

from secondpass.evaluation.report.parts import escape, name
from secondpass.evaluation.report.verdict import (
    Verdict,
    is_sure_gain,
    milliseconds,
    per_query_calls,
)


def summary(found: Verdict) -> list[str]:
    """The verdict in words, and its figures in large."""
    return [_verdict(found), _tiles(found)]


def _verdict(found: Verdict) -> str:
    tone = ""
    if found.difference is not None:
        sure = is_sure_gain(found.difference)
        worse = found.difference.mean < 0 and found.difference.enough_queries
        tone = " pays" if sure else " not" if worse else ""
    return (
        f'<div class="verdict{tone}">\n<p class="answer">{escape(found.answer)}</p>\n'
        f"<p>{escape(found.because)}</p>\n</div>"
    )


def _tiles(found: Verdict) -> str:
    best, one = found.best, found.difference
    if best is None or one is None or best.evaluation is None:
        return ""
    interval = ""
    if one.low is not None and one.high is not None:
        interval = f"{one.confidence:.0%}: {one.low:+.4f} to {one.high:+.4f}"
    tiles = [
        (one.measure, f"{best.evaluation.mean[one.measure]:.4f}", best.name),
        ("gain" if one.mean >= 0 else "loss", f"{one.mean:+.4f}", interval),
        ("queries better : worse", f"{one.wins:,} : {one.losses:,}", f"{one.ties:,} equal"),
    ]
    times = [best.cost.percentile(share) for share in (0.5, 0.95)]
    if times[0] is not None and times[1] is not None:
        tiles.append(("per query", milliseconds(times[0]), f"95% within {milliseconds(times[1])}"))
    if (calls := per_query_calls(best)) is not None:
        tiles.append(("calls per query", calls, f"{best.cost.calls:,} in all"))
    inside = "\n".join(
        f"<div><dt>{name(term)}</dt><dd>{escape(value)}<small>{name(more)}</small></dd></div>"
        for term, value, more in tiles
    )
    return f'<dl class="tiles">\n{inside}\n</dl>'

"""A comparison as Markdown, CSV and files."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from secondpass.evaluation.report.verdict import degraded_by, too_few
from secondpass.evaluation.significance import fewest_queries
from secondpass.formats.lines import AnyPath, write_lines
from secondpass.formats.writing import write_qrels, write_run
from secondpass.rendering import well_formed

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Change, Comparison, Result, Stability

_NONE = "\N{EN DASH}"
_MARKUP = re.compile(r"[\\`*_\[\]<>|!&~]")
_WORDS = {"system", "measure", "reason", "rankings", "issues"}
"""Columns that hold no numbers."""

NOT_MEASURED = (
    "These judged nothing in any ranking. Figures of them would be those of their first stage."
)


def markdown(comparison: Comparison) -> str:
    """Quality, differences, cost, failures, and the queries that changed most."""
    queries = counted(len(comparison.queries), "query", "queries")
    parts = [f"# {_plain(comparison.suite)}: {queries}"]
    parts += [f"> {_plain(note)}" for note in comparison.notes]
    ran = comparison.ran
    if ran:
        head = ["system", *comparison.measures]
        best = best_means(comparison)
        rows = [[_plain(result.name), *_means(result, comparison.measures, best)] for result in ran]
        parts += ["## Quality", _table(head, rows)]
    if rows := [[_plain(one.name), _plain(one.reason)] for one in comparison.not_measured]:
        parts += ["## Not measured", NOT_MEASURED, _table(["system", "reason"], rows)]
    rows = [
        [
            _plain(result.name),
            _plain(measure),
            f"{one.mean:+.4f}",
            "" if one.low is None else f"{one.low:+.4f} to {one.high:+.4f}",
            p_value(one.p),
            p_value(one.corrected_p),
            f"{one.wins} / {one.ties} / {one.losses}",
        ]
        for result in ran
        for measure, one in result.differences.items()
    ]
    if rows:
        confidence = next(one.confidence for r in ran for one in r.differences.values())
        interval = f"{confidence:.0%} interval"
        head = [
            "system",
            "measure",
            "difference",
            interval,
            "p",
            "corrected p",
            "won / tied / lost",
        ]
        told = (
            f"Paired {comparison.settings.get('test', '')} test on the same queries; p corrected "
            "by Holm's procedure for all systems that are compared."
        )
        one = next(one for r in ran for one in r.differences.values())
        if few := too_few(one):
            fewest = fewest_queries(one.confidence)
            told += f" {few}: a difference can be told from chance with {fewest} or more."
        parts += [f"## Against {_plain(str(comparison.baseline))}", told, _table(head, rows)]
    if rows := [_cost_row(result) for result in ran]:
        head = ["system", "p50 ms", "p95 ms", "calls", "tokens in", "tokens out", "cost", "not ok"]
        parts += ["## Cost", _table(head, rows)]
    if rows := [
        _fault_row(result) for result in comparison.results if result.failure_rate or result.issues
    ]:
        told = (
            "A ranking that is not `ok` still counts above: partial ones are judged in part, "
            "degraded ones by a fallback, unchanged ones are the first stage's order. A system all "
            "of whose rankings are unchanged is not measured."
        )
        parts += ["## Faults", told, _table(["system", "rankings", "issues"], rows)]
    if rows := [_stability_row(result) for result in ran if result.stability]:
        head = ["system", "Kendall's tau", "ten best kept", "measure when shuffled"]
        told = (
            "Each query's candidates were shuffled and ranked again; 1 means that it matters not."
        )
        parts += ["## Sensitivity to the order that came in", told, _table(head, rows)]
    for result in ran:
        for word, changes in (("better", result.gains), ("worse", result.losses)):
            if changes:
                heading = f"## Queries that {_plain(result.name)} makes {word}"
                parts += [heading, _changes(comparison, changes)]
    if rows := [[_plain(one.name), _plain(one.reason)] for one in comparison.skipped]:
        parts += ["## Skipped", _table(["system", "reason"], rows)]
    return "\n\n".join(parts) + "\n"


def per_query_csv(comparison: Comparison) -> str:
    """One line for each query and system: ``query,system`` and a column for each measure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["query", "system", *comparison.measures, "seconds"])
    for query in comparison.queries:
        for result in comparison.ran:
            if result.evaluation is not None:
                values = [result.evaluation.per_query[name][query] for name in comparison.measures]
                writer.writerow([query, result.name, *values, result.cost.seconds.get(query, "")])
    return text.getvalue()


def write(comparison: Comparison, folder: AnyPath) -> list[str]:
    """Write the comparison's files into a folder, which is made if need be."""
    place = Path(folder)
    runs = place / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    texts = {
        "results.json": json.dumps(comparison.to_dict(), ensure_ascii=False, indent=1) + "\n",
        "per_query.csv": per_query_csv(comparison),
        "report.md": markdown(comparison),
        "report.html": comparison.to_html(),
    }
    written = []
    for name, text in texts.items():
        write_lines(place / name, [well_formed(text)])
        written.append(str(place / name))
    # Last, because not every id fits into these forms.
    write_qrels(place / "qrels.trec", comparison.qrels)
    written.append(str(place / "qrels.trec"))
    taken: set[str] = set()
    for result in comparison.ran:
        path = runs / f"{_file_name(result.name, taken)}.trec"
        write_run(path, result.run, tag=re.sub(r"\s", "_", well_formed(result.name)))
        written.append(str(path))
    return written


def _file_name(name: str, taken: set[str]) -> str:
    """A file's name for a system's, unlike the others in systems that ignore case, too."""
    plain = wanted = re.sub(r"[^A-Za-z0-9._+-]", "_", name)
    number = 2
    while plain.lower() in taken:
        plain, number = f"{wanted}-{number}", number + 1
    taken.add(plain.lower())
    return plain


def number(value: float | int | None, places: int = 0) -> str:
    """A number for people; a dash where there is none."""
    return _NONE if value is None else f"{value:,.{places}f}"


def in_milliseconds(seconds: float | None) -> str:
    """A time for people, so that a fast stage does not read as none."""
    if seconds is None:
        return _NONE
    return number(seconds * 1000, 1 if seconds >= 0.001 else 3)


def counted(number: int, one: str, many: str) -> str:
    """How many of something."""
    return f"{number:,} {one if number == 1 else many}"


def best_means(comparison: Comparison) -> dict[str, float]:
    """The best mean by each measure; none where all systems have the same."""
    means = [one.evaluation.mean for one in comparison.ran if one.evaluation is not None]
    values = {measure: {mean[measure] for mean in means} for measure in comparison.measures}
    return {measure: max(found) for measure, found in values.items() if len(found) > 1}


def _means(result: Result, measures: Sequence[str], best: Mapping[str, float]) -> list[str]:
    means = result.evaluation.mean if result.evaluation is not None else {}
    cells = []
    for measure in measures:
        shown = f"{means[measure]:.4f}"
        cells.append(f"**{shown}**" if means[measure] == best.get(measure) else shown)
    return cells


def p_value(value: float | None) -> str:
    """A chance for people; a dash where there is none."""
    if value is None:
        return _NONE
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _cost_row(result: Result) -> list[str]:
    cost, rate = result.cost, result.failure_rate
    times = [cost.percentile(share) for share in (0.5, 0.95)]
    return [
        _plain(result.name),
        *map(in_milliseconds, times),
        number(cost.calls),
        number(cost.input_tokens),
        number(cost.output_tokens),
        number(cost.cost, 4),
        _NONE if rate is None else f"{rate:.1%}",
    ]


def _fault_row(result: Result) -> list[str]:
    return [_plain(result.name), *(_plain(told) for told in faults_told(result))]


def faults_told(result: Result) -> tuple[str, str]:
    """How the rankings ended, and what they reported."""
    statuses = [
        f"{count:,} {status}" + (f" ({degraded_by(result)})" if status == "degraded" else "")
        for status, count in sorted(result.statuses.items())
    ]
    issues = [f"{count:,} {code}" for code, count in sorted(result.issues.items())]
    return ", ".join(statuses), ", ".join(issues)


def _stability_row(result: Result) -> list[str]:
    one = result.stability
    if one is None:
        return []
    return [_plain(result.name), f"{one.tau:.3f}", f"{one.overlap:.3f}", _plain(spread(one))]


def spread(one: Stability) -> str:
    """From the least to the greatest mean of the shuffles; a dash where there was none."""
    if not one.means:
        return _NONE
    return f"{min(one.means):.4f} to {max(one.means):.4f} ({one.measure})"


def _changes(comparison: Comparison, changes: Sequence[Change]) -> str:
    lines = []
    for change in changes:
        values = f"{_plain(comparison.measures[0])} {change.before:.3f} → {change.after:.3f}"
        lines.append(f"- **{_plain(change.text)}** ({_plain(change.query)}): {values}")
        for shown in change.top[:3]:
            judged = "not judged" if shown.relevance is None else f"relevance {shown.relevance}"
            before = _NONE if shown.before is None else str(shown.before)
            text = _plain(shown.text[:100])
            lines.append(
                f"    {shown.rank}. (was {before}; {judged}) **{_plain(shown.id)}** {text}"
            )
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text as one line of Markdown that shows it and does nothing else: no image, link or tag."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    sides = [" --- " if name in _WORDS else " ---: " for name in head]
    names = [_plain(name) for name in head]
    return "\n".join([_row(names), "|" + "|".join(sides) + "|", *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

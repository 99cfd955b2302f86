"""``secondpass drift``: whether rankings have changed between two periods."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.text import Text

from secondpass.cli.console import USAGE_ERROR, fail, info, one_line, print_json, result_console
from secondpass.cli.options import AsJson
from secondpass.cli.tables import plain_table
from secondpass.settings import counted
from secondpass_evaluation import check_installed

if TYPE_CHECKING:
    from secondpass_evaluation.periods import Drift

DRIFT = 3
"""Exit code: something has changed."""

_NEXT = {
    "candidates": "look at the retriever and its index first; scores and moves depend on them",
    "faults": "look up the issues on the troubleshooting page, or rank a query with --explain",
    "methods": "find out why another method ranked, or none: a fallback, or the setting `when`",
    "scores": "look at the model: its version, prompt, truncation, precision and kind of score",
    "moves": "look at the blend and the order",
}
"""Where to look if this has changed: the first of these that has."""

_Period: TypeAlias = tuple[str | None, str | None]
"""First and last day; None is open."""


def drift(
    *,
    first: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="Folder or file that `--monitor` wrote, with the earlier period."
        ),
    ],
    second: Annotated[
        Path | None,
        typer.Argument(
            metavar="B",
            help="Folder or file with the later period. Default: other days of A.",
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS",
            help="Days of the earlier period: from and to (`2026-11-01..2026-11-14`), one day, "
            "or all days up to one (`..DAY`).",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS",
            help="Days of the later period, in the same form; `DAY..` is all days from one on.",
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Chance of a false alarm, at most: 0.01 is one in 100 runs in which nothing "
            "has changed.",
        ),
    ] = 0.01,
    details: Annotated[
        bool, typer.Option("--details", help="Print all comparisons, not only the alarms.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether scores changed between two periods.

    The input is a folder that `--monitor FOLDER` wrote, or two such folders or files. The command
    compares scores, moves (how far candidates rise or fall), candidates and errors. A change that
    chance does not explain is an alarm. The exit code is 3 if there is an alarm, and 0 if not. For
    example:

    - `secondpass drift monitoring --after 2026-11-15..`

    - `secondpass drift last-week.jsonl this-week.jsonl --details`
    """
    check_installed("secondpass drift")
    from secondpass.monitoring import read_days
    from secondpass_evaluation.periods import drift as compare

    earlier, later = _periods(first, second, before, after)
    result = compare(
        read_days(first, *earlier),
        read_days(second or first, *later),
        alpha=alpha,
    )
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result, details=details)
    if result.alarms:
        raise typer.Exit(DRIFT)


def _periods(
    first: Path, second: Path | None, before: str | None, after: str | None
) -> tuple[_Period, _Period]:
    """The days of both periods. With one option, the other period is all days before or after."""
    earlier, later = _parse_days("--before", before), _parse_days("--after", after)
    if second is not None and second.resolve() != first.resolve():
        return earlier, later
    if before is None and after is None:
        missing = "missing B" if second is None else "A and B are the same: name another"
        fail(f"{missing}, or the days of the two periods: --before, --after", USAGE_ERROR)
    if before is None and later[0] is not None:
        earlier = None, _shifted(later[0], -1)
    elif after is None and earlier[1] is not None:
        later = _shifted(earlier[1], 1), None
    if earlier[1] is None or later[0] is None or earlier[1] >= later[0]:
        fail("--before, --after: the first period must end before the second begins", USAGE_ERROR)
    return earlier, later


def _parse_days(option: str, text: str | None) -> _Period:
    from secondpass.monitoring import is_day

    if text is None:
        return None, None
    first, separator, last = text.partition("..")
    last = last if separator else first
    if not all(map(is_day, filter(None, (first, last)))):
        message = f"{option}: must be days such as 2026-11-01..2026-11-14, not {text!r}"
        fail(message, USAGE_ERROR)
    if first and last and first > last:
        fail(f"{option}: {first} is after {last}", USAGE_ERROR)
    return first or None, last or None


def _shifted(day: str, days: int) -> str:
    return (datetime.date.fromisoformat(day) + datetime.timedelta(days=days)).isoformat()


def _print(result: Drift, *, details: bool) -> None:
    console = result_console()
    console.print(Text(_verdict(result), "bold red" if result.alarms else "bold green"))
    for note in result.notes:
        info(f"note: {one_line(note)}")
    changes = result.changes if details else result.alarms
    if not changes:
        return
    table = plain_table("what", "method", numbers=["before", "after", "shift", "p"])
    for change in changes:
        form = ".1%" if change.is_share else ".4g"
        values = [f"{change.before:{form}}", f"{change.after:{form}}"]
        table.add_row(
            Text(one_line(change.description), "red" if change.alarm else ""),
            Text(one_line(change.method or "")),
            *values,
            f"{change.effect:.3f}",
            "<.0001" if change.p < 1e-4 else f"{change.p:.4f}",
        )
    console.print(table)
    subjects = {change.subject for change in result.alarms}
    for step in [step for subject, step in _NEXT.items() if subject in subjects][:1]:
        info(f"next: {step}. If users now ask other questions, compare a week with a week")


def _verdict(result: Drift) -> str:
    """A change in words."""
    compared = f"{counted(result.before, 'ranking')} before, {result.after:,} after"
    if not result.alarms:
        comparisons = counted(len(result.changes), "comparison")
        return f"No change was found ({compared}, {comparisons})."
    subjects = list(dict.fromkeys(change.subject for change in result.alarms))
    if len(subjects) > 1:
        subjects[-2:] = [f"{subjects[-2]} and {subjects[-1]}"]
    return f"Changed: {', '.join(subjects)} ({compared})."

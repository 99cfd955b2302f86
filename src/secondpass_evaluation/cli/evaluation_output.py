"""The output of ``secondpass eval``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from secondpass.cli.console import (
    ERROR,
    USAGE_ERROR,
    fail,
    info,
    on_terminal,
    print_json,
    result_console,
    warn,
    write,
)
from secondpass.formats.errors import FormatError
from secondpass_evaluation.cli.command_line import masked

if TYPE_CHECKING:
    from secondpass_evaluation.comparison import Comparison
    from secondpass_evaluation.journal import Journal

_JOURNAL = "rankings.jsonl"
"""Name of the file with the finished rankings of a run that is not complete."""


def check_folder(into: Path | None, *, resume: bool, force: bool) -> Path | None:
    """The path of the journal in the folder of the results; None without a folder.

    Exits if the folder has results, or rankings of an interrupted run, and neither option is set.
    """
    if resume and force:
        fail("--resume, --force: give one of them", USAGE_ERROR)
    if into is None:
        if resume:
            fail("--resume: needs --into, the folder of the interrupted run", USAGE_ERROR)
        return None
    journal = into / _JOURNAL
    # There may also be results: old ones that the run was to replace, or its own.
    is_interrupted = journal.exists() and journal.stat().st_size > 0
    if is_interrupted and not (resume or force):
        hint = "use --resume to continue it, or --force to start again"
        fail(f"{into}: has the rankings of an interrupted run; {hint}")
    if (into / "results.json").exists() and not (is_interrupted or force):
        fail(f"{into}: already has results; use --force to overwrite them")
    return journal


def with_command_line(comparison: Comparison) -> Comparison:
    """The comparison with the command line among its settings, without secrets."""
    settings = {**comparison.settings, "command": masked(sys.argv[1:])}
    return replace(comparison, settings=settings)


def write_results(
    comparison: Comparison, into: Path | None, journal: Journal | None
) -> tuple[list[str], Exception | None]:
    """Write the files, and remove the journal when they are complete.

    Returns:
        The paths; and the error if a file cannot be written, to be raised when the results have
        been printed.
    """
    try:
        written = [] if into is None else comparison.write(into)
        if journal is not None:
            journal.delete()
    except FormatError as error:  # ids do not fit into TREC's files; the others are complete
        if journal is not None:
            journal.delete()
        return [], error
    except Exception as error:
        return [], error
    return written, None


def print_results(
    comparison: Comparison, written: Sequence[str], *, details: bool, as_json: bool
) -> None:
    """Print the results, and where they were written; exits if nothing could be measured."""
    for result in comparison.not_run:
        warn(f"{result.name} is not run: {result.reason}")
    for result in comparison.not_measured:
        warn(f"{result.name} is not measured: {result.reason}")
    if as_json:
        print_json(comparison.to_dict())
    elif on_terminal(sys.stdout):
        from rich.markdown import Markdown

        result_console().print(Markdown(comparison.to_markdown(details=details)))
    else:
        write(comparison.to_markdown(details=details))
    for path in _listed(written, details=details):
        info(f"written: {path}")
    if on_terminal(sys.stdout) and not details and not as_json and not written:
        info("--details prints all tables; --into FOLDER writes them, with plots")
    if not comparison.ran:
        fail("nothing could be measured", ERROR)


def _listed(written: Sequence[str], *, details: bool) -> list[str]:
    """The paths to print; without details, the folder of the runs instead of each run."""
    if details:
        return list(written)
    return [*dict.fromkeys(_without_run(path) for path in written)]


def _without_run(path: str) -> str:
    folder = Path(path).parent
    return str(folder) if folder.name == "runs" else path

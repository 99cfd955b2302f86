"""``secondpass tune``: choose a reranker with its settings, or none, on judged queries."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secondpass.cli.shared import (
    USAGE_ERROR,
    fail,
    grouped,
    info,
    on_terminal,
    print_json,
    progress_bars,
    result_console,
    write,
)
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.suite_options import (
    Behind,
    Depth,
    OutputOptions,
    QueryOptions,
    Rankings,
    SuiteArgument,
    SuiteOptions,
    VectorOptions,
    open_journal,
)
from secondpass_evaluation.environment import masked

if TYPE_CHECKING:
    from secondpass_evaluation.first_stages import FirstStage
    from secondpass_evaluation.tuning.result import Tuning


@grouped
def tune(
    *,
    suite: SuiteArgument = None,
    parts: SuiteOptions,
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="[NAME=]WHAT",
            help="Preset, YAML file or cross-encoder to try. Repeatable. Default: the presets "
            "lexical, embedded and default.",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="YAML file to write the configuration to, if one is adopted."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML file to write the report to.")] = None,
    latency: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="Maximum seconds of 95 % of the second passes."
        ),
    ] = None,
    cost: Annotated[
        float | None, typer.Option(min=0, help="Maximum cost of a query, at configured prices.")
    ] = None,
    smallest_gain: Annotated[
        float | None,
        typer.Option(min=0, help="Smallest gain to adopt a reranker for. Default: 0.01."),
    ] = None,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="Measure of ir_measures, such as nDCG@10.")
    ] = "nDCG@10",
    depth: Depth = 100,
    depths: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of candidates to rerank. Repeatable. Default: 20, 50, 100 and the `depth` "
            "of the configuration; for services only the latter.",
        ),
    ] = None,
    behind: Behind = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of folds and test.")] = 0,
    amount: QueryOptions,
    vectors: VectorOptions,
    rankings: Rankings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run with the same --into.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the files of --into and --report.")
    ] = False,
    output: OutputOptions,
) -> None:
    """Choose a reranker, its depth and blend, or the search alone.

    A reranker is adopted only if its gain on held-out queries is significant, corrected for
    everything that was tried, and at least the smallest gain. Otherwise nothing is written, and the
    output estimates how many more judged queries a decision needs; 30 are the minimum. For example:

    `secondpass tune suite --try embedded --try mine.yaml --latency 0.5 --into rerank.yaml`

    A language model or a rerank API is called only if `--try` names it; its expected calls, tokens
    and cost are printed first. With `--rankings FILE`, a second run, such as with another `--cost`
    or after an interruption, repeats no call.
    """
    check_installed("secondpass tune")
    from secondpass_evaluation.cli.dry_run import print_expected
    from secondpass_evaluation.tuning.tuning import SMALLEST_GAIN
    from secondpass_evaluation.tuning.tuning import tune as run_tuning

    parts.check(suite)
    _check_files(into, report, force=force)
    if rankings is not None and resume:
        fail("--rankings, --resume: give one of them", USAGE_ERROR)
    journal_path = rankings or _journal_of(into, resume=resume, force=force)
    kept = rankings is not None
    specs, not_run = _loadable(tried)
    searched = parts.open(suite, limit=amount.limit, depth=depth)
    stage: FirstStage | None = behind.value if behind else None
    with (
        progress_bars(output.quiet) as progress,
        open_journal(journal_path, resume=resume, kept=kept) as journal,
    ):
        tuning = run_tuning(
            searched.suite,
            specs,
            retriever=searched.retriever([stage] if stage else None, vectors.folder, progress),
            behind=stage,
            depth=depth,
            depths=depths or None,
            latency=latency,
            cost=cost,
            measure=measure,
            smallest_gain=SMALLEST_GAIN if smallest_gain is None else smallest_gain,
            seed=seed,
            concurrency=amount.concurrency,
            not_run=not_run,
            progress=progress,
            journal=journal,
            expected=print_expected,
        )
        settings = {**tuning.settings, "command": masked(sys.argv[1:])}
        tuning = replace(tuning, settings=settings)
        written = _written(tuning, into, report, force=force)
        if journal is not None and not kept:
            journal.delete()
    _print(tuning, as_json=output.as_json)
    for path in written:
        info(f"written: {path}")
    if into is not None and tuning.config is None:
        info(f"{into} is not written: nothing is adopted")
    if tuning.gain is None and latency is None and cost is None:
        fail("no reranker could be tried")


def _check_files(into: Path | None, report: Path | None, *, force: bool) -> None:
    """Check the paths before anything runs."""
    from secondpass_evaluation.provenance import check_output

    if into is not None:
        check_output(into, force=force)
    if report is None:
        return
    if report.suffix != ".html":
        fail(f"--report {report}: must end in .html", USAGE_ERROR)
    if not report.parent.is_dir():
        fail(f"--report {report}: the folder {report.parent} does not exist")
    if report.is_dir():
        fail(f"--report {report}: is a folder; give the name of a file")
    if report.exists() and not force:
        fail(f"--report {report}: already exists; use --force to overwrite it")


def _journal_of(into: Path | None, *, resume: bool, force: bool) -> Path | None:
    """The path of the finished rankings, beside the configuration."""
    if into is None:
        if resume:
            fail("--resume: needs --into, the file of the interrupted run", USAGE_ERROR)
        return None
    journal = into.with_name(f"{into.name}.rankings.jsonl")
    is_interrupted = journal.exists() and journal.stat().st_size > 0
    if is_interrupted and not (resume or force):
        hint = "use --resume to continue it, or --force to start again"
        fail(f"{journal}: has the rankings of an interrupted run; {hint}")
    return journal


def _loadable(tried: list[str] | None) -> tuple[dict[str, Any], dict[str, str]]:
    """By name, the rerankers to try that can be loaded, and why the others cannot."""
    from difflib import get_close_matches

    from secondpass import ConfigurationError, MissingExtraError, ModelLoadError
    from secondpass.config import preset_names, resolve
    from secondpass_evaluation.rerankers import unique_name
    from secondpass_evaluation.tuning.trials import INSTALLED, named

    specs: dict[str, Any] = {}
    arguments: dict[str, str] = {}
    for argument in tried or INSTALLED:
        label, equals, value = argument.partition("=")
        if equals and (not label or not value):
            fail(f"--try {argument}: write NAME=WHAT, or WHAT alone", USAGE_ERROR)
        what = value if equals else argument
        similar = get_close_matches(what, preset_names(), n=1, cutoff=0.8)
        if similar and what not in preset_names() and not Path(what).exists():
            fail(f"--try {argument}: no preset is named {what!r}; did you mean {similar[0]!r}?")
        ((default, spec),) = named([what]).items()
        name = unique_name(label if equals else default, specs)
        specs[name], arguments[name] = spec, argument
    loadable, not_run = {}, {}
    for name, spec in specs.items():
        try:
            resolve(spec).close()
            loadable[name] = spec
        except (MissingExtraError, ModelLoadError) as error:
            not_run[name] = str(error)
        except ConfigurationError as error:
            raise ConfigurationError(error.problems, f"--try {arguments[name]}") from None
    return loadable, not_run


def _written(tuning: Tuning, into: Path | None, report: Path | None, *, force: bool) -> list[Path]:
    from secondpass.formats.shared import write_lines
    from secondpass.ranking.shared import well_formed

    written = []
    if into is not None and tuning.config is not None:
        tuning.write(into, force=force)
        written.append(into)
    if report is not None:
        write_lines(report, [well_formed(tuning.to_html())])
        written.append(report)
    return written


def _print(tuning: Tuning, *, as_json: bool) -> None:
    if as_json:
        print_json(tuning.to_dict())
    elif on_terminal(sys.stdout):
        from rich.markdown import Markdown

        result_console().print(Markdown(tuning.to_markdown()))
    else:
        write(tuning.to_markdown())

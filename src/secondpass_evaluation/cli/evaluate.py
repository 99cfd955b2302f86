"""``secondpass eval``: measure first stages, and rerankers behind them, on a suite."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondpass.cli.shared import (
    ERROR,
    USAGE_ERROR,
    DryRun,
    Set,
    complete_preset,
    fail,
    grouped,
    info,
    on_terminal,
    print_json,
    progress_bars,
    result_console,
    warn,
    write,
)
from secondpass.formats.shared import FormatError
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.suite_options import (
    STAGES,
    Depth,
    OutputOptions,
    QueryOptions,
    RerankTopN,
    Stage,
    SuiteOptions,
    VectorOptions,
    loadable_rerankers,
    open_journal,
    reranker_specs,
)
from secondpass_evaluation.environment import masked

if TYPE_CHECKING:
    from secondpass_evaluation.comparison import Comparison
    from secondpass_evaluation.first_stages import FirstStage
    from secondpass_evaluation.journal import Journal


@grouped
def evaluate(
    *,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUITE",
            help="A BEIR folder, a file of JSON lines with `relevant` ids, or an ir_datasets name. "
            "YAML files are compared, as with `--compare`.",
        ),
    ] = None,
    parts: SuiteOptions,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            "-p",
            metavar="NAME",
            help="Preset to measure. Repeatable.",
            autocompletion=complete_preset,
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="YAML file with a configuration. Repeatable."
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]WHAT",
            help="Preset or YAML file to measure. Repeatable; more files may follow.",
        ),
    ] = None,
    rerank_model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Cross-encoder to measure: a name on the Hugging Face Hub, or a folder. "
            "Repeatable.",
        ),
    ] = None,
    settings: Set = None,
    rerank_top_n: RerankTopN = None,
    depth: Depth = 100,
    stage: Annotated[
        list[Stage] | None,
        typer.Option("--mode", metavar=STAGES, help="First stage to measure. Repeatable."),
    ] = None,
    behind: Annotated[
        list[Stage] | None,
        typer.Option(metavar=STAGES, help="First stage whose candidates are reranked. Repeatable."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="NAME",
            help="Measure of ir_measures, such as nDCG@10. Repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="System that the others are compared with.")
    ] = None,
    shuffles: Annotated[
        int,
        typer.Option(min=0, help="Number of times to repeat with shuffled candidates."),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of shuffles and test.")] = 0,
    amount: QueryOptions,
    vectors: VectorOptions,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write results.json, per_query.csv, report.md, report.html and runs to."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run in the folder.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite results in the folder.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Print all tables and the queries that changed most.")
    ] = False,
    dry_run: DryRun = False,
    output: OutputOptions,
) -> None:
    """Measure what reranking gains and costs on judged queries.

    A suite is a folder in BEIR's format; a file of `{"query": "…", "relevant": ["d1"]}` lines with
    `--corpus`; or `--queries`, `--qrels` and `--corpus` or `--run`. Vectors are computed by the
    model of the extra `embedded`. For example:

    `secondpass eval suite --preset embedded --compare mine.yaml other.yaml --into results`

    It prints the verdict and one table; `--details` prints the rest. After an interruption, the
    same command with `--resume` continues without repeating finished rankings.
    """
    check_installed("secondpass eval")
    from secondpass_evaluation.cli.dry_run import print_comparison, print_expected
    from secondpass_evaluation.dry_run import expected_comparison
    from secondpass_evaluation.experiment import compare as run_comparison
    from secondpass_evaluation.measures import DEFAULT_MEASURES

    suite_name, more = _split_arguments(arguments)
    compare = [*(compare or ()), *more]
    parts.check(suite_name)
    journal_path = check_folder(into, resume=resume, force=force)
    specs = reranker_specs(preset, config, compare, rerank_model)
    rerankers, not_run = loadable_rerankers(specs, settings, rerank_top_n)
    searched = parts.open(suite_name, limit=amount.limit, depth=depth)
    stages: list[FirstStage] | None = [member.value for member in stage] if stage else None
    behinds: list[FirstStage] | None = [member.value for member in behind] if behind else None
    if dry_run:  # which reads a journal, but creates none
        begun = resume and journal_path is not None and journal_path.exists()
        journal_path = journal_path if begun else None
    elif into is not None:
        into.mkdir(parents=True, exist_ok=True)
    with (
        progress_bars(output.quiet) as progress,
        open_journal(journal_path, resume=resume) as journal,
    ):
        retriever = searched.retriever(stages, vectors.folder, progress, behind=behinds or ())
        if dry_run:
            expected = expected_comparison(
                rerankers,
                searched.suite,
                retriever=retriever,
                first_stages=stages,
                behind=behinds,
                depth=depth,
                shuffles=shuffles,
                seed=seed,
                progress=progress,
                journal=journal,
            )
            print_comparison(expected, not_run, as_json=output.as_json)
            return
        comparison = run_comparison(
            rerankers,
            searched.suite,
            retriever=retriever,
            first_stages=stages,
            behind=behinds,
            depth=depth,
            measures=measure or DEFAULT_MEASURES,
            baseline=baseline,
            shuffles=shuffles,
            seed=seed,
            concurrency=amount.concurrency,
            not_run=not_run,
            progress=progress,
            journal=journal,
            expected=print_expected,
        )
        comparison = with_command_line(comparison)
        written, error = write_results(comparison, into, journal)
    try:
        print_results(comparison, written, details=details, as_json=output.as_json)
    finally:
        if error is not None:
            raise error


def _split_arguments(arguments: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """The suite, and the YAML files."""
    files = [argument for argument in arguments or () if argument.endswith((".yaml", ".yml"))]
    suites = [argument for argument in arguments or () if argument not in files]
    if len(suites) > 1:
        message = f"SUITE: only one is allowed, not {' and '.join(suites)}"
        fail(f"{message}; a preset needs --preset or --compare before it", USAGE_ERROR)
    return next(iter(suites), None), files


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

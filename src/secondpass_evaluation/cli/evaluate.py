"""``secondpass eval``: measure first stages, and rerankers behind them, on a suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondpass.cli.console import USAGE_ERROR, fail
from secondpass.cli.options import AsJson, DryRun, Set, complete_preset
from secondpass.cli.progress import progress_bars
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.compared import loadable_rerankers, reranker_specs
from secondpass_evaluation.cli.evaluation_output import (
    check_folder,
    print_results,
    with_command_line,
    write_results,
)
from secondpass_evaluation.cli.suite_options import (
    Cache,
    Concurrency,
    Corpus,
    Depth,
    Limit,
    NoCache,
    PassageSize,
    QrelsFile,
    Queries,
    Quiet,
    RerankTopN,
    RunFile,
    Stage,
    StaleOk,
    check_suite,
    default_stages,
    open_journal,
    open_suite,
)
from secondpass_evaluation.search.documents import PASSAGE_SIZE

if TYPE_CHECKING:
    from secondpass_evaluation.first_stages import FirstStage


def evaluate(
    *,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SUITE] [WHAT]...",
            help="A BEIR folder, a file of JSON lines with `relevant` ids, or an ir_datasets name. "
            "YAML files are compared, as with `--compare`.",
        ),
    ] = None,
    queries: Queries = None,
    qrels: QrelsFile = None,
    corpus: Corpus = None,
    passage_size: PassageSize = PASSAGE_SIZE,
    stale_ok: StaleOk = False,
    run: RunFile = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            "-p",
            help="Preset to measure. Repeatable.",
            autocompletion=complete_preset,
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", help="YAML file with a configuration. Repeatable."),
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
        list[Stage] | None, typer.Option("--mode", help="First stage to measure. Repeatable.")
    ] = None,
    behind: Annotated[
        list[Stage] | None,
        typer.Option(help="First stage whose candidates are reranked. Repeatable."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure", "-m", help="Measure of ir_measures, such as nDCG@10. Repeatable."
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
    limit: Limit = None,
    concurrency: Concurrency = 1,
    cache: Cache = None,
    no_cache: NoCache = False,
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
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure what reranking gains: first stages, and rerankers behind them, on one suite.

    A suite is a folder in BEIR's format; a file of `{"query": "…", "relevant": ["d1"]}` lines with
    `--corpus`; or `--queries`, `--qrels` and `--corpus` or `--run`. Vectors are computed by the
    model of the extra `embedded`. For example:

    `secondpass eval suite --preset embedded --compare mine.yaml other.yaml --into results`

    It prints the verdict and one table; `--details` prints the rest. After an interruption, the
    same command with `--resume` continues without repeating finished rankings.
    """
    check_installed("secondpass eval")
    from secondpass_evaluation.cli.dry_run import print_comparison, print_expected
    from secondpass_evaluation.cli.vectors import vector_folder
    from secondpass_evaluation.dry_run import expected_comparison
    from secondpass_evaluation.experiment import compare as run_comparison
    from secondpass_evaluation.measures import DEFAULT_MEASURES

    suite_name, more = _split_arguments(arguments)
    compare = [*(compare or ()), *more]
    check_suite(suite_name, queries, qrels)
    journal_path = check_folder(into, resume=resume, force=force)
    specs = reranker_specs(preset, config, compare, rerank_model)
    rerankers, not_run = loadable_rerankers(specs, settings, rerank_top_n)
    suite, make_retriever = open_suite(
        suite_name,
        queries=queries,
        qrels=qrels,
        corpus=corpus,
        run=run,
        passage_size=passage_size,
        stale_ok=stale_ok,
        limit=limit,
        depth=depth,
    )
    stages: list[FirstStage] | None = [member.value for member in stage] if stage else None
    behinds: list[FirstStage] | None = [member.value for member in behind] if behind else None
    needed = {*(stages or default_stages(suite)), *(behinds or ())}
    if dry_run:  # which reads a journal, but creates none
        begun = resume and journal_path is not None and journal_path.exists()
        journal_path = journal_path if begun else None
    elif into is not None:
        into.mkdir(parents=True, exist_ok=True)
    with progress_bars(quiet) as progress, open_journal(journal_path, resume=resume) as journal:
        folder = vector_folder(cache, no_cache=no_cache)
        retriever = make_retriever(needed, folder, progress)
        if dry_run:
            expected = expected_comparison(
                rerankers,
                suite,
                retriever=retriever,
                first_stages=stages,
                behind=behinds,
                depth=depth,
                shuffles=shuffles,
                seed=seed,
                progress=progress,
                journal=journal,
            )
            print_comparison(expected, not_run, as_json=as_json)
            return
        comparison = run_comparison(
            rerankers,
            suite,
            retriever=retriever,
            first_stages=stages,
            behind=behinds,
            depth=depth,
            measures=measure or DEFAULT_MEASURES,
            baseline=baseline,
            shuffles=shuffles,
            seed=seed,
            concurrency=concurrency,
            not_run=not_run,
            progress=progress,
            journal=journal,
            expected=print_expected,
        )
        comparison = with_command_line(comparison)
        written, error = write_results(comparison, into, journal)
    try:
        print_results(comparison, written, details=details, as_json=as_json)
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

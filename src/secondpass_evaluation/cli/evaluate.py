"""``secondpass eval``: measure first stages, and rerankers behind them, on a suite."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secondpass.cli.console import (
    ERROR,
    USAGE_ERROR,
    check_usage,
    fail,
    info,
    on_terminal,
    print_json,
    warn,
)
from secondpass.cli.options import (
    DryRun,
    Set,
    complete_preset,
    grouped,
    new_folder,
    note_new_stores,
)
from secondpass.cli.progress import progress_bars
from secondpass.formats.errors import FormatError
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.suite_options import (
    STAGES,
    Depth,
    Force,
    Now,
    OutputOptions,
    QueryOptions,
    RerankTopN,
    Resume,
    Seed,
    Stage,
    SuiteOptions,
    VectorOptions,
    configurations,
    is_interrupted,
    journal_path,
    open_journal,
    print_markdown,
    reranker_specs,
    stage_names,
)
from secondpass_evaluation.environment import masked
from secondpass_evaluation.report.not_measured import ranked_by_fallbacks, without_figures

if TYPE_CHECKING:
    from secondpass_evaluation.comparison import Comparison
    from secondpass_evaluation.journal import Journal


@grouped
def evaluate(
    *,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUITE",
            help="Judged queries: a folder in BEIR's format, a file of JSON lines with "
            "`relevant` ids, or a name of ir_datasets. YAML files that follow are "
            "measured, as with `--compare`.",
        ),
    ] = None,
    parts: SuiteOptions,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            "-p",
            metavar="NAME",
            help="Preset to measure. Repeatable. Without a preset, a file and a model, the "
            "searches alone are measured.",
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
        typer.Option("--mode", metavar=STAGES, help="Search (first stage) to measure. Repeatable."),
    ] = None,
    behind: Annotated[
        list[Stage] | None,
        typer.Option(
            metavar=STAGES,
            help="Search (first stage) whose results are reranked; `given`: the candidates that "
            "are part of the suite. Repeatable.",
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="NAME",
            help="Measure of quality, as ir_measures names it, such as nDCG@10. Repeatable; "
            "systems are compared by the first.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="System to compare the others with. Default: the search (first stage) whose "
            "results are reranked."
        ),
    ] = None,
    shuffles: Annotated[
        int,
        typer.Option(
            min=0,
            help="Rerank each query this many times more with shuffled candidates, to see "
            "whether their order matters.",
        ),
    ] = 0,
    seed: Seed = 0,
    now: Now = None,
    amount: QueryOptions,
    vectors: VectorOptions,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results.json, per_query.csv, report.md, report.html and the runs."
        ),
    ] = None,
    resume: Resume = False,
    force: Force = False,
    details: Annotated[
        bool, typer.Option("--details", help="Print all tables, and the queries that changed most.")
    ] = False,
    dry_run: DryRun = False,
    output: OutputOptions,
) -> None:
    """Measure what reranking gains and costs on judged queries.

    Judged queries are questions for which you know the relevant documents. A suite, the set of
    them, is one of these:

    - a folder in BEIR's format (`queries.jsonl`, `corpus.jsonl`, judgements)

    - a file of `{"query": "…", "relevant": ["d1"]}` lines, with `--corpus`

    - `--queries` and `--qrels`, with `--corpus` or `--run`

    The search by vectors uses the model of the extra `embedded`. For example:

    `secondpass eval suite --preset embedded --compare mine.yaml other.yaml --into results`

    The command prints a verdict and one table; `--details` prints all tables. After an
    interruption, repeat the command with `--resume`: finished rankings are not repeated.
    """
    check_installed("secondpass eval")
    from secondpass_evaluation.cli.dry_run import print_comparison, print_expected
    from secondpass_evaluation.dry_run import expected_comparison
    from secondpass_evaluation.experiment import compare as run_comparison
    from secondpass_evaluation.measures import DEFAULT_MEASURES

    suite_name, more = _split_arguments(arguments)
    parts.check(suite_name)
    journal_file = journal_path(into, lambda it: it / "rankings.jsonl", resume=resume, force=force)
    _check_results(into, journal_file, force=force)
    specs = reranker_specs(preset, config, [*(compare or ()), *more], rerank_model)
    check_usage(
        {
            "--set, --rerank-top-n: need a reranker; name one with --preset or --config": not specs
            and (settings or rerank_top_n) is not None
        }
    )
    rerankers = configurations(specs, settings, rerank_top_n)
    if not dry_run:
        note_new_stores(*rerankers.values())
    searched = parts.open(suite_name, limit=amount.limit, depth=depth)
    if dry_run:  # which reads a journal, but creates none
        begun = resume and journal_file is not None and journal_file.exists()
        journal_file = journal_file if begun else None
    with (
        new_folder(None if dry_run else into),
        progress_bars(output.quiet) as progress,
        open_journal(journal_file, resume=resume) as journal,
    ):
        common: dict[str, Any] = {
            "retriever": searched.retriever(vectors, progress),
            "first_stages": stage_names(stage),
            "behind": stage_names(behind),
            "depth": depth,
            "shuffles": shuffles,
            "seed": seed,
            "progress": progress,
            "journal": journal,
            "now": now,
        }
        if dry_run:
            expected = expected_comparison(rerankers, searched.suite, **common)
        else:
            comparison = run_comparison(
                rerankers,
                searched.suite,
                measures=measure or DEFAULT_MEASURES,
                baseline=baseline,
                concurrency=amount.concurrency,
                expected=print_expected,
                **common,
            )
            command = masked(sys.argv[1:])
            comparison = replace(comparison, settings={**comparison.settings, "command": command})
            written, error = _write_results(comparison, into, journal)
    if dry_run:  # below the progress bars, not beneath them
        print_comparison(expected, as_json=output.as_json)
        return
    try:
        _print_results(comparison, written, details=details, as_json=output.as_json)
        if rerankers and all(
            result.first_stage is None or result.only_fallbacks for result in comparison.ran
        ):
            fail("no reranker was measured", ERROR)
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


def _check_results(into: Path | None, journal: Path | None, *, force: bool) -> None:
    """Exit if the folder has results that this run would overwrite, unasked."""
    if into is None or journal is None or not (into / "results.json").exists():
        return
    # Besides finished rankings there may be results: old ones to be replaced, or the run's own.
    if not (is_interrupted(journal) or force):
        fail(f"{into}: already has results; use --force to overwrite them")


def _write_results(
    comparison: Comparison, into: Path | None, journal: Journal | None
) -> tuple[list[str], Exception | None]:
    """Write the files, and remove the journal when they are complete.

    An error is to be raised when the results have been printed.
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


def _print_results(
    comparison: Comparison, written: Sequence[str], *, details: bool, as_json: bool
) -> None:
    """Print the results, and where they were written; exits if nothing could be measured."""
    if as_json or not on_terminal(sys.stdout):  # where the report does not stand beside it
        for stages in (True, False):
            for sentence in without_figures(comparison, stages=stages):
                warn(sentence.removesuffix("."))
        for sentence in ranked_by_fallbacks(comparison):
            warn(sentence.removesuffix("."))
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_markdown(comparison.to_markdown(details=details))
    if not details:  # the folder of the runs instead of each run
        folders = {path: Path(path).parent for path in written}
        short = (str(at) if at.name == "runs" else path for path, at in folders.items())
        written = [*dict.fromkeys(short)]
    for path in written:
        info(f"written: {path}")
    if on_terminal(sys.stdout) and not details and not as_json and not written:
        info("--details prints all tables; --into FOLDER writes them, with plots")
    if not comparison.ran:
        fail("nothing could be measured", ERROR)

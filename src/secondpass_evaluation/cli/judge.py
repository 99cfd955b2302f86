"""``secondpass judge``: have a language model judge results, and a person some of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondpass.cli.configurations import configuration
from secondpass.cli.console import USAGE_ERROR, fail, info
from secondpass.cli.options import AsJson, Config, DryRun, Preset, Set
from secondpass.cli.progress import progress_bars
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.judging import (
    DryRunDoneError,
    folder_journal,
    open_inputs,
    pool_rerankers,
    print_estimate,
    print_judgements,
    stop_before_asking,
)
from secondpass_evaluation.cli.options import PassageSize, StaleOk
from secondpass_evaluation.cli.review import review_folder
from secondpass_evaluation.cli.suite_options import (
    Behind,
    Cache,
    Concurrency,
    Corpus,
    NoCache,
    Quiet,
    RunFile,
    Stage,
)
from secondpass_evaluation.search.documents import PASSAGE_SIZE

if TYPE_CHECKING:
    from secondpass_evaluation.first_stages import FirstStage

_RETRIEVED = 100
"""Number of candidates to retrieve per query for rerankers."""


def judge(
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERIES]",
            help="Queries: JSON lines with `query`, such as a log, or lines of `id<TAB>text`; or a "
            "BEIR folder.",
        ),
    ] = None,
    into: Annotated[Path, typer.Option(help="Folder to write the judgements to.")],
    corpus: Corpus = None,
    passage_size: PassageSize = PASSAGE_SIZE,
    stale_ok: StaleOk = False,
    run: RunFile = None,
    preset: Preset = None,
    config: Config = None,
    settings: Set = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]WHAT",
            help="Preset or YAML file of a reranker whose results are also judged. Repeatable.",
        ),
    ] = None,
    stage: Annotated[
        list[Stage] | None,
        typer.Option("--mode", help="First stage whose results are judged. Repeatable."),
    ] = None,
    behind: Behind = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Number of queries to judge, drawn at random. Default: all."),
    ] = None,
    depth: Annotated[
        int, typer.Option(min=1, help="Number of results of each system to judge.")
    ] = 10,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Number of documents in one question.")
    ] = 1,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Cost after which no further query is judged; the model needs `prices`."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample and of the orders.")] = 0,
    concurrency: Concurrency = 1,
    cache: Cache = None,
    no_cache: NoCache = False,
    ask: Annotated[
        int | None,
        typer.Option(min=1, help="Number of queries that a person then judges in the terminal."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue in the folder, or judge a larger sample.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a model's judgements in the folder.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Have a language model judge the results of searches and rerankers, and a person some of them.

    The judge is the language model of the reranker that `--preset` or `--config` describes. It
    grades the first results of each system from 0 to 3. The folder is then a suite for `eval`, with
    the same `--corpus`. For example:

    `secondpass judge log.jsonl --corpus docs.index --config judge.yaml --sample 200 --into suite`

    Judgements of some queries by a person correct the figures for errors of the model:

    `secondpass judge --into suite --ask 20`

    Each answer is written at once; the same command continues.
    """
    check_installed("secondpass judge")
    if source is None:
        if ask is None:
            fail("missing QUERIES, or --ask for judgements in --into (see --help)", USAGE_ERROR)
        review_folder(into, ask, as_json=as_json)
        return
    if config is None and preset is None:
        fail("missing --config or --preset, with the language model that judges", USAGE_ERROR)
    if ask is not None and dry_run:
        fail("--ask, --dry-run: give one of them", USAGE_ERROR)
    from secondpass.config import load
    from secondpass_evaluation.cli.vectors import vector_folder
    from secondpass_evaluation.judging.judge import judge as judge_queries

    grader = load(configuration(preset, config, settings))
    stages: list[FirstStage] | None = [member.value for member in stage] if stage else None
    with (
        progress_bars(quiet) as progress,
        folder_journal(into, resume=resume, force=force, dry_run=dry_run) as journal,
    ):
        queries, documents, make_retriever = open_inputs(
            source,
            corpus,
            run,
            passage_size=passage_size,
            stale_ok=stale_ok,
            depth=max(_RETRIEVED, depth),
        )
        folder = vector_folder(cache, no_cache=no_cache)
        needed = {*(stages or ()), *([behind.value] if behind else ())}
        try:
            judgements = judge_queries(
                queries,
                grader,
                **documents,
                pool=pool_rerankers(pool, dry_run=dry_run),
                retriever=make_retriever(needed, folder, progress),
                first_stages=stages,
                behind=behind.value if behind else None,
                retrieved=_RETRIEVED,
                sample=sample,
                depth=depth,
                batch_size=batch_size,
                budget=budget,
                seed=seed,
                concurrency=concurrency,
                progress=progress,
                journal=journal,
                expected=stop_before_asking if dry_run else print_estimate,
            )
        except DryRunDoneError as done:
            done.show(min(sample or len(queries), len(queries)), as_json=as_json)
            return
        finally:
            grader.close()
        written = judgements.write(into)
    if ask is None or not as_json:
        print_judgements(judgements, as_json=as_json)
    if ask is None and not as_json:
        info("--ask 20 has a person judge 20 queries, which corrects the figures of `eval`")
    for path in written:
        info(f"written: {path}")
    if ask is not None:
        review_folder(into, ask, as_json=as_json)

"""``secondpass job``: rerank more requests than one process can, on Ray."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from secondpass.cli.console import ERROR, check_usage, fail, info, warn
from secondpass.cli.options import (
    Quiet,
    RankingOptions,
    RerankerOptions,
    RunOptions,
    Timings,
    WithText,
    grouped,
    note_new_stores,
)
from secondpass.cli.progress import progress_bars
from secondpass.cli.rerank_input import read_context
from secondpass.config import load
from secondpass.formats.totals import not_reranked, summary
from secondpass.settings import counted
from secondpass_ray import check_installed


@grouped
def job(
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--input",
            "-i",
            metavar="PATH",
            help="Requests as JSON lines (also `.gz`) or Parquet: a file, a folder, or a URI.",
        ),
    ] = None,
    trec: RunOptions,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the output, or its URI."),
    ],
    configured: RerankerOptions,
    defaults: RankingOptions,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the job that is in the folder.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the job that is in the folder.")
    ] = False,
    text: WithText = True,
    timings: Timings = False,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of an existing Ray cluster. Default: Ray is started on this machine "
            "for the job."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of worker processes. Default: one per GPU; without GPUs, one per CPU.",
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Number of CPUs, and so of threads, of each worker.")
    ] = 1,
    gpus: Annotated[
        float | None,
        typer.Option(
            min=0, help="Number of GPUs of each worker. Default: 1 if there are GPUs, 0 otherwise."
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum number of concurrent requests to language models and APIs, by all "
            "workers together.",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum tokens of prompts and replies, of all workers and all runs of the job "
            "together.",
        ),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            min=1e-12,
            help="Maximum cost at the configured prices, of all workers and all runs of the job "
            "together.",
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="ROWS", help="Number of rows that are written, or retried, together."
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option(min=1, help="Number of queries that a worker ranks at the same time."),
    ] = 64,
    quiet: Quiet = False,
) -> None:
    """Rerank many requests with Ray, on one machine or on a cluster.

    The input has the requests that `secondpass rerank` reads: JSON lines, Parquet with the columns
    `query` and `candidates`, or a TREC run. The output is a folder with part files. They have one
    row for each row of the input, with the number of that row as `row`. `cat FOLDER/part-*.jsonl`
    prints them in order. For example:

    - `secondpass job -i requests.jsonl -o ranked --preset embedded`

    - the same command with `--resume`, after an interruption

    - `secondpass job -i s3://bucket/requests -o s3://bucket/ranked -c rerank.yaml --address auto`
    """
    from secondpass_ray.coordination import Budget
    from secondpass_ray.inputs import JobInput
    from secondpass_ray.ranking import NOT_A_REQUEST, STRICT, Choices
    from secondpass_ray.running import Job, run_job
    from secondpass_ray.starting import Workers

    check_usage(
        {
            "--input: is missing; name requests, or a TREC run by --run": not source
            and trec.run is None,
            "--input, --run: give one of them": source is not None and trec.run is not None,
            "--resume, --force: give one of them": resume and force,
            "--concurrency: must be at least the number of --workers": bool(
                workers and concurrency and workers > concurrency
            ),
        }
    )
    trec.check()
    check_installed("a job on Ray")
    config = configured.read()
    context, context_hash = read_context(defaults.context)
    options = defaults.read(lambda: load(config))
    note_new_stores(config)
    started = time.monotonic()
    with progress_bars(quiet) as progress:
        result = run_job(
            Job(
                JobInput(source, trec.run, trec.queries, trec.corpus),
                output,
                config,
                Choices(options, context, text=text, timings=timings, batch=batch),
                Workers(address, workers, threads, gpus, concurrency),
                Budget(max_tokens, max_cost),
                context_hash,
                block,
            ),
            resume=resume,
            force=force,
            progress=progress,
            warn=warn,
        )
    queries = result.done - result.counts[NOT_A_REQUEST]
    if not quiet:
        info(summary(queries, result.counts, time.monotonic() - started))
    if message := not_reranked(queries, result.counts):
        warn(message)
    errors = {
        f"not requests: {counted(result.counts[NOT_A_REQUEST], 'row')}": (
            result.counts[NOT_A_REQUEST]
        ),
        f"not complete: {counted(result.counts[STRICT], 'ranking')}": result.counts[STRICT],
        f"the budget is used up; not ranked: {counted(result.rows - result.done, 'row')}; continue "
        "with --resume and a larger one": result.exhausted and result.done < result.rows,
    }
    if messages := [message for message, is_wrong in errors.items() if is_wrong]:
        fail("; ".join(messages), ERROR)

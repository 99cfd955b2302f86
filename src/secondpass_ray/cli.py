"""``secondpass job``: rerank more requests than one process can, on Ray."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from secondpass.cli.console import ERROR, check_usage, fail, info, on_terminal, warn
from secondpass.cli.options import (
    Quiet,
    RankingOptions,
    RerankerOptions,
    Timings,
    WithText,
    grouped,
    note_new_stores,
)
from secondpass.cli.rerank_input import read_context
from secondpass.config import load
from secondpass.formats.totals import not_reranked, summary
from secondpass.settings import counted
from secondpass_ray import check_installed


@grouped
def job(
    *,
    source: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="PATH",
            help="Requests as JSON lines (also `.gz`) or Parquet: a file, a folder, or a URI.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the output, or its URI."),
    ],
    id_key: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="KEY",
            help="Key (or column) of requests with a unique id, by which a row is known. Default: "
            "by its file and its number there.",
        ),
    ] = None,
    configured: RerankerOptions,
    defaults: RankingOptions,
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
    batch: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="ROWS",
            help="Number of queries that a worker ranks at the same time, and writes to one file.",
        ),
    ] = 64,
    quiet: Quiet = False,
) -> None:
    """Rerank many requests with Ray, on one machine or on a cluster.

    The input has the requests that `secondpass rerank` reads: JSON lines, or Parquet with the
    columns `query` and `candidates`. The output is a folder with part files. They have one row for
    each row of the input, with its `file` and its number there as `row`. After an interruption,
    repeat the command: it ranks the rows that the output does not have. For example:

    - `secondpass job -i requests.jsonl -o ranked --preset embedded`

    - `secondpass job -i s3://bucket/requests -o s3://bucket/ranked -c rerank.yaml --address auto`
    """
    from secondpass_ray.budget import Budget
    from secondpass_ray.job import Job, run_job
    from secondpass_ray.ranking import NOT_A_REQUEST, STRICT, Choices
    from secondpass_ray.starting import Workers

    check_usage(
        {
            "--concurrency: must be at least the number of --workers": bool(
                workers and concurrency and workers > concurrency
            ),
        }
    )
    check_installed("a job on Ray")
    config = configured.read()
    context, context_hash = read_context(defaults.context)
    options = defaults.read(lambda: load(config))
    note_new_stores(config)
    started = time.monotonic()
    result = run_job(
        Job(
            source,
            output,
            config,
            Choices(options, context, text=text, timings=timings),
            batch,
            id_key,
            Workers(address, workers, threads, gpus, concurrency),
            Budget(max_tokens, max_cost),
            context_hash,
        ),
        bars=not quiet and on_terminal(sys.stderr),
        warn=warn,
    )
    counts = result.counts
    queries = result.rows - counts[NOT_A_REQUEST]
    if not quiet:
        seconds = time.monotonic() - started
        info(summary(queries, counts, seconds, done=result.before, output=output))
    if message := not_reranked(queries, counts):
        warn(message)
    errors = {
        f"not requests: {counted(counts[NOT_A_REQUEST], 'row')}": counts[NOT_A_REQUEST],
        f"not complete: {counted(counts[STRICT], 'ranking')}": counts[STRICT],
        f"the budget is used up; not ranked: {counted(result.left, 'row')}; run the job again "
        "with a larger one": result.left,
    }
    if messages := [message for message, is_wrong in errors.items() if is_wrong]:
        fail("; ".join(messages), ERROR)

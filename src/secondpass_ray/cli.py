"""``secondpass job``: rerank more requests than one process can, on Ray."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from secondpass.cli.shared import (
    ERROR,
    USAGE_ERROR,
    Config,
    Context,
    Depth,
    Instruction,
    Order,
    Preset,
    RunCorpus,
    RunQueries,
    Set,
    Timings,
    TopK,
    WithText,
    configuration,
    decode_argument,
    fail,
    info,
    parse_order,
    progress_bars,
    read_context,
    warn,
)
from secondpass.config import load
from secondpass.formats.shared import summary
from secondpass_ray import check_installed


def job(
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--input",
            "-i",
            metavar="PATH",
            help="Requests: JSON lines, also `.gz`, or Parquet; a file, a folder, or a URI.",
        ),
    ] = None,
    run: Annotated[Path | None, typer.Option(help="TREC run, instead of `--input`.")] = None,
    queries: RunQueries = None,
    corpus: RunCorpus = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder, or its URI.")
    ],
    preset: Preset = None,
    config: Config = None,
    settings: Set = None,
    top_k: TopK = None,
    depth: Depth = None,
    order: Order = None,
    instruction: Instruction = None,
    context: Context = None,
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
        typer.Option(help="An existing Ray cluster. Default: one on this machine, for the job."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of processes. Default: one per GPU; without GPUs, one per CPU."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPUs, and threads, of each worker.")] = 1,
    gpus: Annotated[
        float | None,
        typer.Option(min=0, help="GPUs of each worker. Default: 1 if there are GPUs, else 0."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Concurrent requests to services, over all workers."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum tokens of prompts and replies, over all workers and runs of the job.",
        ),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            min=1e-12,
            help="Maximum cost at the models' prices, over all workers and runs of the job.",
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(min=1, metavar="ROWS", help="Rows to write, or to retry, at a time."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Number of queries to rank at a time.")] = 64,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress bars and no summary.")
    ] = False,
) -> None:
    """Rerank many requests on Ray, on a machine or a cluster.

    The input has requests as `secondpass rerank` reads them: JSON lines, Parquet with the columns
    `query` and `candidates`, or a TREC run. Rankings are written to parts in a folder, one row for
    each row of the input, with its number as `row`; `cat FOLDER/part-*.jsonl` has them in order.
    For example:

    - `secondpass job -i requests.jsonl -o ranked --preset embedded`

    - the same with `--resume`, after an interruption

    - `secondpass job -i s3://bucket/requests -o s3://bucket/ranked -c rerank.yaml --address auto`
    """
    from secondpass_ray.coordination import Budget
    from secondpass_ray.inputs import JobInput
    from secondpass_ray.ranking import NOT_A_REQUEST, STRICT, Choices
    from secondpass_ray.running import Job, run_job
    from secondpass_ray.starting import Workers

    _check(source, run, queries, corpus, resume=resume, force=force)
    check_installed("a job on Ray")
    if workers is not None and concurrency is not None and workers > concurrency:
        fail("--concurrency: must be at least the number of --workers", USAGE_ERROR)
    config_values = configuration(preset, config, settings)
    context_value, context_hash = read_context(context)
    options: dict[str, Any] = {
        "top_k": top_k,
        "depth": depth,
        "order": None if order is None else parse_order(load(config_values), order),
        "instruction": None if instruction is None else decode_argument(instruction),
    }
    started = time.monotonic()
    with progress_bars(quiet) as progress:
        result = run_job(
            Job(
                JobInput(source, run, queries, corpus),
                output,
                config_values,
                Choices(options, context_value, text=text, timings=timings, batch=batch),
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
    if not quiet:
        info(summary(result.done, result.counts, time.monotonic() - started))
    errors = {
        f"{result.counts[NOT_A_REQUEST]:,} rows are not requests": result.counts[NOT_A_REQUEST],
        f"{result.counts[STRICT]:,} rankings are not complete": result.counts[STRICT],
        f"the budget is used up, and {result.rows - result.done:,} rows are not ranked; continue "
        "with --resume and a larger one": result.exhausted and result.done < result.rows,
    }
    if messages := [message for message, is_wrong in errors.items() if is_wrong]:
        fail("; ".join(messages), ERROR)


def _check(
    source: str | None,
    run: Path | None,
    queries: Path | None,
    corpus: Path | None,
    *,
    resume: bool,
    force: bool,
) -> None:
    """Exit if the options do not go together."""
    run_options = queries is not None, corpus is not None
    errors = {
        "--input: is missing; name requests, or a TREC run by --run": source is None
        and run is None,
        "--input, --run: give one of them": source is not None and run is not None,
        "--run: needs --queries and --corpus": run is not None and not all(run_options),
        "--queries, --corpus: need --run": run is None and any(run_options),
        "--resume, --force: give one of them": resume and force,
    }
    for message, is_wrong in errors.items():
        if is_wrong:
            fail(message, USAGE_ERROR)

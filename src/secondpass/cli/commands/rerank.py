"""``secondpass rerank``: read requests, rerank them batch by batch, and write the rankings."""

from __future__ import annotations

import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from secondpass import __version__
from secondpass.adapters.shared import rerank_grouped
from secondpass.cli.console import (
    ERROR,
    USAGE_ERROR,
    decode_argument,
    fail,
    info,
    on_terminal,
    warn,
)
from secondpass.cli.options import (
    AsJson,
    Config,
    Context,
    Depth,
    DryRun,
    Explain,
    Instruction,
    MonitorFolder,
    Order,
    Preset,
    RunCorpus,
    RunQueries,
    Set,
    Timings,
    TopK,
    WithText,
    configuration,
    load_for,
    monitored,
    parse_order,
)
from secondpass.cli.progress import progress_bars
from secondpass.cli.rankings import Format, Formatter, Stream
from secondpass.cli.rerank_input import RerankInput, read_context
from secondpass.cli.resuming import Resumable, storing_answers
from secondpass.formats.requests import InputRequest, batches
from secondpass.formats.totals import count, summary
from secondpass.ranking.result import Ranking, RerankError
from secondpass.reranker import Reranker
from secondpass.settings.environment import fill
from secondpass.types import Progress, Request

_BATCH_SIZE = 32_000_000
"""Bytes of input after which a batch ends; it bounds the memory."""


def rerank(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="JSON lines. Default, and `-`: standard input."),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", help="Query for which each input line is a candidate."),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each input line is the text of a candidate, not JSON.")
    ] = False,
    run: Annotated[
        Path | None, typer.Option(help="TREC run; the lines of a query must be consecutive.")
    ] = None,
    queries: RunQueries = None,
    corpus: RunCorpus = None,
    preset: Preset = None,
    config: Config = None,
    settings: Set = None,
    top_k: TopK = None,
    depth: Depth = None,
    order: Order = None,
    instruction: Instruction = None,
    context: Context = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Output format. Default: table, or jsonl in a pipe."),
    ] = None,
    json_lines: AsJson = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file. Default: standard output.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted output file.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    text: WithText = True,
    timings: Timings = False,
    explain: Explain = None,
    tag: Annotated[str, typer.Option(help="Last field of a TREC run.")] = "secondpass",
    batch: Annotated[int, typer.Option(min=1, help="Number of queries to rank at a time.")] = 64,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 unless every ranking is ok.")
    ] = False,
    dry_run: DryRun = False,
    monitor: MonitorFolder = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress bars and no summary.")
    ] = False,
) -> None:
    """Rerank the candidates of one query or many, or a TREC run.

    Input is JSON lines from a file or standard input. With `--query` each line is a candidate:
    `{"id": "d1", "text": "…", "score": 0.5}`. Without, each line is a query with its candidates:
    `{"query_id": "q1", "query": "…", "candidates": [{"id": "d1", "text": "…"}]}`. Or give `--run`,
    `--queries` and `--corpus`. For example:

    - `secondpass rerank found.jsonl --query "How do I cancel?" --preset embedded`

    - `cat requests.jsonl | secondpass rerank --set depth=20 --no-text | jq .ranking`

    - `secondpass rerank --run bm25.trec --queries queries.jsonl --corpus corpus.jsonl -f trec
    -o reranked.trec`; after an interruption, the same with `--resume`

    With `--query` and `--lines`, each line is the text of a candidate. Files whose names end in
    `.gz` are read and written compressed.

    Rankings are written in the order of the input, as soon as they are ready. A summary of their
    statuses, tokens and cost is printed to standard error at the end.
    """
    query = None if query is None else decode_argument(query)
    output = None if str(output) == "-" else output
    source = RerankInput(file, query, run, queries, corpus, lines)
    source.check(output, resume=resume, force=force)
    if json_lines and form not in {None, Format.jsonl}:
        fail("--json, --format: give one of them", USAGE_ERROR)
    if dry_run and resume:
        fail("--dry-run, --resume: give one of them", USAGE_ERROR)
    is_resumable = output is not None and _is_regular(output)
    if output is not None and is_resumable:
        source.check_not_overwritten(output, config, context)
    config_values = configuration(preset, config, settings)
    reranker = load_for(config_values, dry_run=dry_run)
    options: dict[str, Any] = {
        "top_k": top_k,
        "depth": depth,
        "order": parse_order(reranker, order),
        "instruction": None if instruction is None else decode_argument(instruction),
    }
    context_value, context_hash = read_context(context)
    if dry_run:
        from secondpass.cli.dry_run import print_dry_run

        with ExitStack() as stack:
            progress = stack.enter_context(progress_bars(quiet))
            with_options = (
                (_request(item, context_value), {**options, **item.options})
                for item in source.requests(stack, reranker, progress)
            )
            print_dry_run(reranker, with_options, as_json=json_lines)
        return
    to_terminal = output is None and on_terminal(sys.stdout)
    form = form or (Format.table if to_terminal and not json_lines else Format.jsonl)
    formatter = Formatter(
        form,
        text=text,
        timings=timings,
        tag=tag,
        top_k=top_k,
        to_file=not to_terminal,
        explain=explain or (),
    )
    started = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(monitored(monitor))
        sink: Stream | Resumable
        if output is not None and is_resumable:
            made_of = {
                "configuration": fill(config_values)[0],
                "version": __version__,
                "query": query,
                "context": context_hash,
                "choice of options": [*options.values(), form.value, text, timings, tag, batch],
                **({"--explain": explain} if explain else {}),
                **({"--lines": lines} if lines else {}),
            }
            sink = stack.enter_context(Resumable(output, made_of, resume=resume, force=force))
            stack.enter_context(storing_answers(output, reranker, resume=resume))
        else:
            sink = stack.enter_context(Stream(output))
        # No bars between rankings that are printed to the terminal.
        progress = stack.enter_context(progress_bars(quiet or to_terminal))
        requests = source.requests(stack, reranker, progress)
        unexplained = set(explain or ())
        windows = batches(_without_ids_of(requests, unexplained), batch, _BATCH_SIZE)

        def rank(window: Sequence[InputRequest], before: int) -> list[Ranking]:
            return _rank(reranker, window, options, context_value, before)

        total, candidates = _write_rankings(windows, rank, formatter, sink, progress)
        sink.finish()
    for identifier in sorted(unexplained):
        warn(f"--explain {identifier}: no candidate has this id")
    if not quiet:
        info(summary(total, sink.counts, time.monotonic() - started))
    if candidates == 0 and (total == 0 or query is not None):
        _report_nothing("candidate" if total else "query", source)
    if strict and sink.counts["ok"] != total:
        raise typer.Exit(ERROR)


def _report_nothing(missing: str, source: RerankInput) -> None:
    """Warn that the input has none; a file without any is an error."""
    message = f"there is no {missing} in the input"
    if source.is_file:
        fail(message)
    warn(message)  # what writes into a pipe may have nothing to rank


def _write_rankings(
    windows: Iterable[Sequence[InputRequest]],
    rank: Callable[[Sequence[InputRequest], int], list[Ranking]],
    formatter: Formatter,
    sink: Stream | Resumable,
    progress: Progress,
) -> tuple[int, int]:
    """Rank and write batches of requests, and return the numbers of requests and candidates."""
    total = candidates = 0
    for window in windows:
        done = sink.count_done(request.digest for request in window)
        if done < len(window):
            numbered = [*enumerate(window, total + 1)][done:]
            for number, request in numbered:
                formatter.check(number, request)
            # The whole batch, as scores can depend on how candidates are batched.
            rankings = rank(window, total)[done:]
            texts = [
                formatter.format_ranking(number, request, ranking)
                for (number, request), ranking in zip(numbered, rankings, strict=True)
            ]
            sink.write("".join(texts), count(rankings))
        total += len(window)
        candidates += sum(len(request.candidates) for request in window)
        progress("Reranking", total, None)
    return total, candidates


def _without_ids_of(requests: Iterable[InputRequest], ids: set[str]) -> Iterator[InputRequest]:
    """Pass requests on, and remove the ids of their candidates from a set."""
    for request in requests:
        if ids:
            known = (candidate.id for candidate in request.candidates)
            ids.difference_update(str(id_) for id_ in known if id_ is not None)
        yield request


def _rank(
    reranker: Reranker,
    batch: Sequence[InputRequest],
    options: Mapping[str, Any],
    context: Any,
    total: int,
) -> list[Ranking]:
    """Rank a batch that follows ``total`` requests."""
    requests = [_request(item, context) for item in batch]
    try:
        return rerank_grouped(reranker, requests, [{**options, **item.options} for item in batch])
    except RerankError as error:
        fail(f"requests {total + 1} to {total + len(batch)}: {error}")


def _request(item: InputRequest, context: Any) -> Request:
    """A request with its own context, else with the shared one."""
    return Request(item.query, item.candidates, context if item.context is None else item.context)


def _is_regular(path: Path) -> bool:
    """Whether a path is a regular file, or will be."""
    return not path.exists() or stat.S_ISREG(path.stat().st_mode)

"""``secondpass rerank``: read requests, rerank them batch by batch, and write the rankings."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from secondpass import __version__
from secondpass.adapters.grouping import rerank_grouped
from secondpass.cli.console import ERROR, check_usage, fail, info, on_terminal, warn
from secondpass.cli.dry_run import estimated, print_estimate
from secondpass.cli.options import (
    AsJson,
    Batch,
    DryRun,
    Explain,
    InputFile,
    Lines,
    OneQuery,
    Quiet,
    RankingOptions,
    RerankerOptions,
    RunOptions,
    Timings,
    WithText,
    grouped,
    load_for,
)
from secondpass.cli.progress import progress_bars
from secondpass.cli.rankings import (
    Format,
    Formatter,
    Stream,
    chosen_format,
    report_unexplained,
)
from secondpass.cli.rerank_input import RerankInput, default_batch, read_context, request_of
from secondpass.cli.resuming import Resumable, storing_answers
from secondpass.cli.warming import WarmUp
from secondpass.formats.requests import InputRequest, batches
from secondpass.formats.totals import beyond_depth, count, not_reranked, summary
from secondpass.ranking.result import Ranking, RerankError
from secondpass.reranker import Reranker
from secondpass.settings.environment import fill
from secondpass.types import Progress

_NOTED_IDS, _LONGEST_NOTED = 1_000, 50
"""Ids of the input among which a similar one is looked for, and their characters at most."""


@grouped
def rerank(
    *,
    file: InputFile = None,
    query: OneQuery = None,
    lines: Lines = False,
    trec: RunOptions,
    configured: RerankerOptions,
    defaults: RankingOptions,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format", "-f", help="Output format. Default: table on a terminal, jsonl in a pipe."
        ),
    ] = None,
    json_lines: AsJson = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file. Default: standard output.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the output file of an interrupted command.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    text: WithText = True,
    timings: Timings = False,
    explain: Explain = None,
    tag: Annotated[
        str | None,
        typer.Option(
            help="Name of the run: the last field of each line of TREC output. Default: secondpass."
        ),
    ] = None,
    batch: Batch = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 1 if a ranking has another status than ok."),
    ] = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> None:
    """Rerank the search results (candidates) of one query or of many.

    The input is JSON lines, from a file or from standard input:

    - With `--query`, each line is a candidate: `{"id": "d1", "text": "…", "score": 0.5}`.

    - Without `--query`, each line is a query with its candidates: `{"query_id": "q1", "query": "…",
    "candidates": [{"id": "d1", "text": "…"}]}`.

    - With `--query` and `--lines`, each line is the text of a candidate.

    Instead of JSON lines, the input can be a TREC run: give `--run`, `--queries` and `--corpus`.
    For example:

    - `secondpass rerank found.jsonl --query "How do I cancel?" --preset embedded`

    - `cat requests.jsonl | secondpass rerank --set depth=20 --no-text | jq .ranking`

    - `secondpass rerank --run bm25.trec --queries queries.jsonl --corpus corpus.jsonl -f trec
    -o reranked.trec`; after an interruption, repeat it with `--resume`

    Files whose names end in `.gz` are read and written compressed.

    Rankings are written in the order of the input, after each `--batch` of queries. At the end,
    a summary of statuses, tokens and cost is printed to standard error.
    """
    output = None if str(output) == "-" else output
    source = RerankInput(file, query, lines, trec)
    source.check()
    check_usage(
        {
            "--resume: needs --output": resume and output is None,
            "--resume, --force: give one of them": resume and force,
            "--dry-run, --resume: give one of them": dry_run and resume,
        }
    )
    to_terminal = output is None and on_terminal(sys.stdout)
    form = chosen_format(form, Format.jsonl, as_json=json_lines, to_terminal=to_terminal)
    check_usage({"--tag: needs --format trec": tag is not None and form is not Format.trec})
    tag = "secondpass" if tag is None else tag
    # A pipe or a device can neither be continued nor overwritten.
    resumable = output if output and (not output.exists() or output.is_file()) else None
    if resumable is not None:
        source.check_not_overwritten(resumable, configured.config, defaults.context)
    config_values = configured.read(unordered=lines)
    reranker = load_for(config_values, dry_run=dry_run)
    options = defaults.read(lambda: reranker)
    context, context_hash = read_context(defaults.context)
    batch = batch or default_batch(reranker)
    if dry_run:
        with progress_bars(quiet) as progress, ExitStack() as stack:
            requests = source.requests(stack, reranker, progress)
            asked = ((request_of(it, context), {**options, **it.options}) for it in requests)
            estimate = estimated(reranker, asked)
        print_estimate(estimate, as_json=json_lines or not on_terminal(sys.stdout))
        return
    formatter = Formatter(
        form,
        text=text,
        timings=timings,
        tag=tag,
        top_k=defaults.top_k,
        to_file=not to_terminal,
        explain=explain or (),
    )
    started = time.monotonic()
    with ExitStack() as stack:
        sink: Stream | Resumable
        if resumable is not None:
            made_of = {
                "configuration": fill(config_values)[0],
                "version": __version__,
                "query": query,
                "context": context_hash,
                "choice of options": [*options.values(), form.value, text, timings, tag, batch],
                **({"--explain": explain} if explain else {}),
                **({"--lines": lines} if lines else {}),
            }
            sink = stack.enter_context(Resumable(resumable, made_of, resume=resume, force=force))
            reranker = stack.enter_context(storing_answers(resumable, reranker, resume=resume))
        else:
            sink = stack.enter_context(Stream(output))
        # No bars between rankings that are printed to the terminal.
        progress = stack.enter_context(progress_bars(quiet or to_terminal))
        requests = source.requests(stack, reranker, progress)
        unexplained, some_ids = set(explain or ()), dict[str, None]()
        windows = batches(_without_ids_of(requests, unexplained, some_ids), batch)
        rank = _ranker(reranker, options, context)
        total, candidates = _write_rankings(windows, rank, formatter, sink, progress)
        sink.finish()
    if candidates == 0 and (total == 0 or query is not None):
        _say_empty(source, total)
    source.warn_of_lines(candidates, beyond_depth(sink.counts), configured, defaults)
    _print_summary(total, sink, time.monotonic() - started, quiet=quiet, strict=strict)
    report_unexplained(unexplained, [*some_ids], "no candidate has this id")
    if unexplained or (strict and sink.counts["ok"] != total):
        raise typer.Exit(ERROR)


def _ranker(
    reranker: Reranker, options: Mapping[str, Any], context: Any
) -> Callable[[Sequence[InputRequest], int], list[Ranking]]:
    """A function that ranks requests; it also takes how many were before them, for messages."""
    warm_up = WarmUp(reranker)

    def rank(window: Sequence[InputRequest], before: int) -> list[Ranking]:
        call_options = [{**options, **item.options} for item in window]
        asked = [request_of(item, context) for item in window]
        warm_up.before(asked, call_options)
        try:
            return rerank_grouped(reranker, asked, call_options)
        except RerankError as error:
            fail(f"requests {before + 1} to {before + len(window)}: {error}")

    return rank


def _say_empty(source: RerankInput, total: int) -> None:
    """Fail without a query; what searches for a query and writes into a pipe may find nothing."""
    say = warn if total and not source.is_file else fail
    say(f"{source.place}there is no {'candidate' if total else 'query'} in the input")


def _print_summary(
    total: int, sink: Stream | Resumable, seconds: float, *, quiet: bool, strict: bool
) -> None:
    """Print what was ranked; last, and whatever the options, if it was not reranked."""
    if not quiet:
        done = min(sink.done, total)
        info(summary(total, sink.counts, seconds, done=done, output=sink.path))
    if message := not_reranked(total, sink.counts, [] if strict else ["--strict"]):
        warn(message)


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


def _without_ids_of(
    requests: Iterable[InputRequest], ids: set[str], some_ids: dict[str, None]
) -> Iterator[InputRequest]:
    """Pass requests on, remove the ids of their candidates from a set, and note the first ones."""
    for request in requests:
        if ids:
            known = [str(item.id) for item in request.candidates if item.id is not None]
            short = [identifier for identifier in known if len(identifier) <= _LONGEST_NOTED]
            ids.difference_update(known)
            some_ids.update(dict.fromkeys(short[: max(0, _NOTED_IDS - len(some_ids))]))
        yield request

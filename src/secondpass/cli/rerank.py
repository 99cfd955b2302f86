"""``secondpass rerank``: requests in, rankings out, one after the other."""

from __future__ import annotations

import hashlib
import json
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from secondpass import __version__
from secondpass.cli.call_settings import UnknownKeys, check_settings, ranked
from secondpass.cli.configurations import (
    AsJson,
    Config,
    Order,
    Preset,
    Set,
    configuration,
    ordering,
)
from secondpass.cli.rankings import Format, Shape, Stream
from secondpass.cli.requests import (
    Ask,
    Documents,
    of_lines,
    of_one_query,
    of_run,
    windows,
)
from secondpass.cli.resuming import Resumable, state_of
from secondpass.cli.terminal import (
    FAULT,
    WRONG_CALL,
    fail,
    on_terminal,
    progress,
    tell,
    typed,
)
from secondpass.config import load
from secondpass.errors import ConfigurationError, RerankError
from secondpass.formats.reading import read_queries
from secondpass.reranker import Reranker
from secondpass.settings import yaml_text
from secondpass.settings.environment import fill
from secondpass.types import Ranking, Request

_STATUSES = ("ok", "partial", "degraded", "unchanged")
_WINDOW = 32_000_000
"""Bytes of input that are ranked side by side, at most, and one request more: bounds memory."""


def rerank(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="JSON lines; none or `-`: standard input."),
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Each line is a candidate for this.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="A TREC run, the lines of each query together.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Of the run: JSON lines, or `id<TAB>text`.")
    ] = None,
    corpus: Annotated[Path | None, typer.Option(help="Of the run: JSON lines.")] = None,
    preset: Preset = None,
    config: Config = None,
    settings: Set = None,
    top_k: Annotated[int | None, typer.Option("--top-k", "-k", min=1, help="Return so many.")] = (
        None
    ),
    depth: Annotated[int | None, typer.Option(min=1, help="Judge so many.")] = None,
    order: Order = None,
    context: Annotated[
        Path | None, typer.Option(help="JSON or YAML that the method is told with every query.")
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Unless given: a table on a terminal, else jsonl."),
    ] = None,
    json_lines: AsJson = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here; unless given: print.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an output that a kill has left.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Begin the output anew.")] = False,
    text: Annotated[
        bool, typer.Option("--text/--no-text", help="Write texts and metadata, too.")
    ] = True,
    timings: Annotated[bool, typer.Option("--timings", help="Write seconds, too.")] = False,
    tag: Annotated[str, typer.Option(help="The last field of a TREC run.")] = "secondpass",
    batch: Annotated[int, typer.Option(min=1, help="Queries ranked side by side.")] = 64,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 unless every ranking is ok.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Neither bars nor a summary.")] = False,
) -> None:
    """Rerank candidates: of one query, of many, or of a TREC run.

    Input is JSON lines from a file or standard input. With `--query` each line is a candidate:
    `{"id": "d1", "text": "…", "score": 0.5}`. Without, each line is a query with its candidates:
    `{"query_id": "q1", "query": "…", "candidates": [{"id": "d1", "text": "…"}]}`. Or `--run`,
    `--queries` and `--corpus`. For example:

    - `secondpass rerank found.jsonl --query "How do I cancel?" --preset embedded`

    - `cat requests.jsonl | secondpass rerank --set depth=20 --no-text | jq .ranking`

    - `secondpass rerank --run bm25.trec --queries queries.jsonl --corpus corpus.jsonl -f trec
    -o reranked.trec`, and after a kill the same with `--resume`

    Rankings are written in the order of the input, as they are ready. How many of them were ok is
    told at the end, on standard error.
    """
    query = None if query is None else typed(query)
    output = None if str(output) == "-" else output
    given = _Input(file, query, run, queries, corpus)
    given.check(output, resume=resume, force=force)
    if json_lines and form not in {None, Format.jsonl}:
        fail("--json, --format: give one of them", WRONG_CALL)
    resumable = output is not None and _is_regular(output)
    if output is not None and resumable:
        _check_apart(output, (file, run, queries, corpus, config, context))
    described = configuration(preset, config, settings)
    reranker = load(described)
    ordered = ordering(reranker, order)
    told, context_digest = _context(context)
    shown = output is None and on_terminal(sys.stdout)
    form = form or (Format.table if shown and not json_lines else Format.jsonl)
    shape = Shape(form, text=text, timings=timings, tag=tag, top_k=top_k, to_file=not shown)
    began = time.monotonic()
    with ExitStack() as stack:
        sink: Stream | Resumable
        if output is not None and resumable:
            made_of = {
                "configuration": fill(described)[0],
                "version": __version__,
                "query": query,
                "context": context_digest,
                "choice of options": [top_k, depth, ordered, form.value, text, timings, tag, batch],
            }
            opened = Resumable(output, made_of, resume=resume, force=force)
            sink = stack.enter_context(opened)
        else:
            sink = stack.enter_context(Stream(output))
        # Rankings that are shown as they are ready would be torn apart by bars between them.
        bars = stack.enter_context(progress(quiet or shown))
        asks = given.asks(stack, bars, reranker)
        usual: dict[str, Any] = {"top_k": top_k, "depth": depth, "order": ordered}
        done = 0
        for window in windows(asks, batch, _WINDOW):
            kept = sink.new(ask.digest for ask in window)
            if kept < len(window):
                first = done + kept + 1
                for number, ask in enumerate(window[kept:], first):
                    shape.check(number, ask)
                requests = [
                    Request(ask.query, ask.candidates, told if ask.context is None else ask.context)
                    for ask in window
                ]
                # Also where some are done: the same batches give the same scores to the last bit.
                try:
                    rankings = ranked(reranker, requests, [usual | ask.settings for ask in window])
                except RerankError as error:
                    fail(f"requests {done + 1} to {done + len(window)}: {error}")
                fresh = [*zip(window, rankings, strict=True)][kept:]
                lines = [shape.of(number, one) for number, one in enumerate(fresh, first)]
                sink.write("".join(lines), _counts([ranking for _, ranking in fresh]))
            done += len(window)
            bars("Reranking", done, None)
        sink.finish()
    counts = sink.counts
    if not quiet:
        tell(_summary(done, counts, time.monotonic() - began))
    if strict and counts["ok"] != done:
        raise typer.Exit(FAULT)


# ---------------------------------------------------------------------- what is asked for


@dataclass(frozen=True)
class _Input:
    """Where requests come from."""

    file: Path | None
    query: str | None
    run: Path | None
    queries: Path | None
    corpus: Path | None

    def check(self, output: Path | None, *, resume: bool, force: bool) -> None:
        """End if the options do not go together."""
        of_run = self.queries is not None, self.corpus is not None
        wrong = {
            "--query: is empty": self.query is not None and not self.query.strip(),
            "--query, --run: give one of them": self.query is not None and self.run is not None,
            "FILE, --run: give one of them": self.file is not None and self.run is not None,
            "--run needs --queries and --corpus": self.run is not None and not all(of_run),
            "--queries, --corpus: are those of a --run": self.run is None and any(of_run),
            "--resume goes on with an --output": resume and output is None,
            "--resume, --force: give one of them": resume and force,
        }
        for told, is_so in wrong.items():
            if is_so:
                fail(told, WRONG_CALL)
        if self.file is None and self.run is None and on_terminal(sys.stdin):
            fail("give a FILE, or send JSON lines to standard input (or see --help)", WRONG_CALL)

    def asks(
        self, stack: ExitStack, bars: Callable[[str, int, int | None], None], reranker: Reranker
    ) -> Iterator[Ask]:
        """The requests, read as they are wanted; files are closed with the stack."""
        text_needed = reranker.render.needs_text
        if self.run is not None and self.queries is not None and self.corpus is not None:
            texts = read_queries(self.queries)
            name, lines = _opened(stack, self.run)
            documents = stack.enter_context(Documents(self.corpus, partial(_indexed, bars)))
            return of_run(lines, name, texts, documents)
        name, lines = _opened(stack, self.file)
        if self.query is not None:
            return iter([of_one_query(lines, name, self.query, text_needed=text_needed)])
        check = partial(check_settings, reranker)
        return of_lines(lines, name, text_needed=text_needed, check=check, unknown=UnknownKeys())


def _opened(stack: ExitStack, file: Path | None) -> tuple[Path | str, BinaryIO]:
    """What messages call the lines, and the lines."""
    if file is not None and str(file) != "-":
        return file, stack.enter_context(file.open("rb"))
    if sys.stdin is None:
        fail("standard input: is closed")
    return "standard input", sys.stdin.buffer


def _check_apart(output: Path, read: Sequence[Path | None]) -> None:
    """End if what is read would be written over."""
    for target in (output, state_of(output)):
        for file in read:
            if file is not None and file.exists() and target.exists() and target.samefile(file):
                fail(f"--output {output}: {file} is read; name another output", WRONG_CALL)


def _context(file: Path | None) -> tuple[Any, str]:
    """What the method is told, and a hash of the file that says it."""
    if file is None:
        return None, ""
    raw = file.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    try:
        text = raw.decode("utf-8")
        try:
            return json.loads(text), digest
        except ValueError:
            return yaml_text.parse(text), digest
    except yaml_text.NotYAMLError as error:
        raise ConfigurationError(f"not JSON; as YAML: {error}", str(file)) from None
    except (ValueError, RecursionError):
        raise ConfigurationError("not JSON or YAML", str(file)) from None


def _indexed(bars: Callable[[str, int, int | None], None], count: int) -> None:
    bars("Finding the documents", count, None)


def _is_regular(path: Path) -> bool:
    """Whether it is a file, or will be one."""
    return not path.exists() or stat.S_ISREG(path.stat().st_mode)


def _counts(rankings: Sequence[Ranking]) -> Counter[str]:
    counts: Counter[str] = Counter(ranking.report.status for ranking in rankings)
    counts.update(
        f"issue {code}"
        for ranking in rankings
        for code in {issue.code for issue in ranking.report.issues}
    )
    return counts


def _summary(done: int, counts: Counter[str], seconds: float) -> str:
    queries = "query" if done == 1 else "queries"
    statuses = ", ".join(f"{counts[status]:,} {status}" for status in _STATUSES)
    told = f"{done:,} {queries} in {seconds:.1f} s: {statuses}"
    issues = [
        f"{name.removeprefix('issue ')} ({count:,})"
        for name, count in counts.most_common()
        if name.startswith("issue ")
    ]
    return told + (f"; issues: {', '.join(issues)}" if issues else "")

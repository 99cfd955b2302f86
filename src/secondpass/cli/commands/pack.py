"""``secondpass pack``: rerank candidates, and write the best of them within a budget of tokens."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from secondpass.adapters.grouping import rerank_grouped
from secondpass.cli.console import check_usage, fail, info, on_terminal, warn, write_text
from secondpass.cli.options import (
    AsJson,
    Batch,
    InputFile,
    Lines,
    OneQuery,
    Quiet,
    RankingOptions,
    RerankerOptions,
    RunOptions,
    grouped,
    load_for,
)
from secondpass.cli.progress import progress_bars
from secondpass.cli.rerank_input import RerankInput, default_batch, read_context, request_of
from secondpass.cli.warming import WarmUp
from secondpass.errors import MissingExtraError
from secondpass.formats import to_json
from secondpass.formats.requests import InputRequest, batches
from secondpass.formats.totals import not_reranked
from secondpass.ranking.packed import Packed
from secondpass.ranking.result import Ranking, RerankError
from secondpass.settings import counted


@grouped
def pack(
    *,
    file: InputFile = None,
    tokens: Annotated[
        int, typer.Option("--tokens", "-t", min=1, help="Number of tokens of the text.")
    ] = 2000,
    query: OneQuery = None,
    lines: Lines = False,
    trec: RunOptions,
    configured: RerankerOptions,
    defaults: RankingOptions,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="File `tokenizer.json` of a model, to count tokens. Default: an estimate, about "
            "1.5 times the number for English text."
        ),
    ] = None,
    by_document: Annotated[
        bool,
        typer.Option("--by-document", help="Passages of one document together, in its order."),
    ] = False,
    neighbours: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="DOCUMENT START",
            help="Two fields: the document that a text is part of, and the character of the "
            "document where the text begins, such as `source_id split_idx_start`.",
        ),
    ] = None,
    batch: Batch = None,
    json_lines: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rerank candidates, and write the best as one text for a prompt.

    The input is that of `secondpass rerank`. The best passages are written whole where they fit,
    else their best sentences, each below a number. With `--json`, and without `--query`, each line
    is the text for a query with its sources, and with what was left out. For example:

    - `secondpass pack found.jsonl --query "How do I cancel?" --tokens 1000 --preset embedded`

    - `secondpass pack requests.jsonl --tokenizer tokenizer.json --preset embedded`
    """
    source = RerankInput(file, query, lines, trec)
    source.check()
    as_text = query is not None and not json_lines
    check_usage({"--by-document, --order: give one of them": by_document and bool(defaults.order)})
    count = None if tokenizer is None else _tokenizer(tokenizer)
    reranker = load_for(configured.read(unordered=lines), dry_run=False)
    options = defaults.read(lambda: reranker)
    context, _ = read_context(defaults.context)
    packed_count, counts = 0, Counter[str]()
    warm_up = WarmUp(reranker)
    with ExitStack() as stack:
        # No bars between texts that are printed to the terminal.
        no_bars = quiet or as_text or on_terminal(sys.stdout)
        progress = stack.enter_context(progress_bars(no_bars))
        requests = source.requests(stack, reranker, progress)
        for window in batches(requests, batch or default_batch(reranker)):
            asked = [request_of(item, context) for item in window]
            call_options = [{**options, **item.options} for item in window]
            warm_up.before(asked, call_options)
            try:
                rankings = rerank_grouped(reranker, asked, call_options)
            except RerankError as error:
                fail(str(error))
            for item, ranking in zip(window, rankings, strict=True):
                packed = ranking.pack(
                    tokens,
                    count=count,
                    order="document" if by_document else "best",
                    neighbours=neighbours,
                )
                write_text((packed.text if as_text else to_json(_record(item, packed))) + "\n")
                if as_text and not packed.text and "tokens" in packed.left_out:
                    warn(_nothing_fits(ranking, packed, tokens, count))
                if as_text and not quiet:
                    info(_summary(ranking, packed))
                beyond = ranking.report.beyond_depth
                source.warn_of_lines(len(item.candidates), beyond, configured, defaults)
            packed_count += len(window)
            counts.update(ranking.report.status for ranking in rankings)
            progress("Packing", packed_count, None)
    if message := not_reranked(packed_count, counts):
        warn(message)


def _record(item: InputRequest, packed: Packed) -> dict[str, Any]:
    named = {} if item.query_id is None else {"query_id": item.query_id}
    return {**named, "query": item.query, **packed.to_dict()}


def _summary(ranking: Ranking, packed: Packed) -> str:
    of_all = f"{len(packed.sources)} of {counted(len(ranking), 'candidate')}"
    report = ranking.report
    status = "" if report.status == "ok" else f"; the ranking is {report.status_text}"
    depth = f"; {report.scored_text}" if report.beyond_depth else ""
    return f"{of_all}, {counted(packed.tokens, 'token')}{status}{depth}"


def _nothing_fits(ranking: Ranking, packed: Packed, tokens: int, count: Any) -> str:
    first = packed.left_out["tokens"][0]
    alone = replace(ranking, items=tuple(it for it in ranking if it.position == first))
    needed = alone.pack(sys.maxsize, count=count).tokens
    return f"nothing fits: the first candidate needs {needed:,} tokens, --tokens is {tokens:,}"


def _tokenizer(file: Path) -> Any:
    """The tokenizer of a file, which reads each text whole."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError("embedded", "--tokenizer") from None
    if not file.is_file():
        fail(f"--tokenizer {file}: there is no such file")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the class of its errors is Exception
        fail(f"--tokenizer {file}: is not the file `tokenizer.json` of a model ({error})")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: tokenizer.encode(text, add_special_tokens=False)

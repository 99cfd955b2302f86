"""``secondpass store``: encode passages ahead."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from secondpass import Reranker
from secondpass.cli.console import fail, one_line, print_json, write
from secondpass.cli.options import AsJson, RerankerOptions, grouped
from secondpass.cli.progress import progress_bars
from secondpass.settings import counted
from secondpass_evaluation import check_installed
from secondpass_evaluation.cli.first_stages import saying_how_to_go_on, warn_of_skipped
from secondpass_evaluation.cli.suite_options import PassageSize
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.passages import PASSAGE_SIZE
from secondpass_evaluation.search.stored import fill, stored_in


@grouped
def store(
    *,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of text, Markdown or HTML files, or a corpus.jsonl (BEIR).",
        ),
    ],
    into: Annotated[
        Path,
        typer.Option(
            "--into", help="File for the store: a new file, or a store to add passages to."
        ),
    ],
    configured: RerankerOptions,
    passage_size: PassageSize = PASSAGE_SIZE,
    as_json: AsJson = False,
) -> None:
    """Encode passages in advance, to make reranking faster.

    For example: `secondpass store docs/ --into passages.store`. Other commands then use the store
    with `--set method.store=passages.store`.

    Passages are split as `secondpass index` splits them. They are encoded as the reranker of
    --preset or --config encodes them, by default the preset `embedded`. If the command is
    interrupted, run it again: it skips the passages that are already stored.
    """
    check_installed("secondpass store")
    started = time.perf_counter()
    config = stored_in(configured.read(default="embedded"), into)
    reranker = Reranker.from_config(config)
    with progress_bars(as_json) as progress:
        read = read_source(source, passage_size=passage_size, progress=progress)
        warn_of_skipped(read.skipped)
        if not read.corpus:
            fail(f"{source}: has no text to store")
        with saying_how_to_go_on():
            stored = fill(reranker, read.corpus, progress)
    reranker.close()
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "store": str(into),
                "source": str(source),
                "passages": len(read.corpus),
                "known": stored.known,
                "encoded": stored.encoded,
                "bytes": into.stat().st_size,
                "seconds": round(seconds, 3),
                "skipped": dict(read.skipped),
            }
        )
        return
    size = into.stat().st_size / 1e6
    text = (
        f"{into}: {counted(len(read.corpus), 'passage')}, {stored.encoded:,} encoded, "
        f"{stored.known:,} stored before, {size:.1f} MB, in {seconds:.1f} s"
    )
    write(one_line(text) + "\n")

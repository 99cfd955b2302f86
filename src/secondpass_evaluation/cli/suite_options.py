"""Options that name a suite, shared by the subcommands that read one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondpass.cli.console import USAGE_ERROR, fail, info
from secondpass.types import Progress
from secondpass_evaluation.search.documents import SMALLEST_PASSAGE

if TYPE_CHECKING:
    from secondpass_evaluation.first_stages import FirstStage, Retriever
    from secondpass_evaluation.journal import Journal
    from secondpass_evaluation.suites import Suite


PassageSize = Annotated[
    int,
    typer.Option(min=SMALLEST_PASSAGE, metavar="CHARACTERS", help="Maximum length of a passage."),
]
RerankTopN = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of candidates to rerank. Default: `depth` of the configuration, else 50.",
    ),
]
StaleOk = Annotated[
    bool, typer.Option("--stale-ok", help="Search an index even if its source has changed.")
]


class Stage(StrEnum):
    """First stages."""

    given = "given"
    vector = "vector"
    lexical = "lexical"
    hybrid = "hybrid"


SuiteArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[SUITE]",
        help="A BEIR folder, a file of JSON lines with `relevant` ids, or an ir_datasets name.",
    ),
]
Queries = Annotated[
    Path | None, typer.Option(help="Queries: JSON lines, or lines of `id<TAB>text`.")
]
QrelsFile = Annotated[Path | None, typer.Option("--qrels", help="Judgements: TREC or BEIR TSV.")]
Corpus = Annotated[
    Path | None,
    typer.Option(
        help="What to search: JSON lines, a folder of documents, or an index (`secondpass index`)."
    ),
]
RunFile = Annotated[
    Path | None, typer.Option("--run", help="TREC run whose documents are the candidates.")
]
Depth = Annotated[int, typer.Option(min=1, help="Number of candidates to retrieve per query.")]
Behind = Annotated[Stage | None, typer.Option(help="First stage whose candidates are reranked.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Number of queries to use, from the first.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Number of rankings at a time.")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder to cache the vectors of the corpus in.", show_default=False),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not cache vectors.")]
Rankings = Annotated[
    Path | None,
    typer.Option(
        "--rankings",
        metavar="FILE",
        help="Keep finished rankings in this file, and reuse those that it has.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")]


def check_suite(suite: str | None, queries: Path | None, qrels: Path | None) -> None:
    """Exit with a usage error if no suite is named."""
    if suite is None and (queries is None or qrels is None):
        fail("missing SUITE, or --queries and --qrels (see --help)", USAGE_ERROR)


def default_stages(suite: Suite) -> list[FirstStage]:
    """The first stages to measure if no option names any."""
    return ["given"] if suite.candidates is not None else ["vector", "lexical", "hybrid"]


def open_suite(
    name: str | None,
    *,
    queries: Path | None,
    qrels: Path | None,
    corpus: Path | None,
    run: Path | None,
    passage_size: int,
    stale_ok: bool,
    limit: int | None,
    depth: int,
) -> tuple[Suite, Callable[[set[FirstStage], Path | None, Progress], Retriever | None]]:
    """Load the suite of these options.

    Returns:
        The suite; and a function that creates the retriever over its corpus, from the first stages
        that will run, the folder to cache vectors in (None: no cache), and a progress callback.
    """
    from secondpass_evaluation.cli.first_stages import (
        IndexStage,
        open_for_search,
        read_passages,
        suite_retriever,
    )
    from secondpass_evaluation.loading import load_suite
    from secondpass_evaluation.search.selection import is_index

    index = (
        open_for_search(corpus, depth, stale_ok=stale_ok) if corpus and is_index(corpus) else None
    )
    passages = index.corpus if index else read_passages(corpus, passage_size)
    suite = load_suite(name, queries=queries, qrels=qrels, corpus=passages, run=run).first(limit)

    def retriever(
        stages: set[FirstStage], cache: Path | None, progress: Progress
    ) -> Retriever | None:
        if index is not None:
            return IndexStage(index, {*stages})
        return suite_retriever(suite, {*stages}, depth, cache, progress)

    return suite, retriever


@contextmanager
def open_journal(
    path: Path | None, *, resume: bool, kept: bool = False
) -> Iterator[Journal | None]:
    """The journal of a run; prints where the finished rankings are if it is interrupted.

    Args:
        path: None: no journal.
        resume: continue an interrupted run; otherwise its rankings and answers are deleted.
        kept: whether the file is kept for other runs; then ``partial`` rankings are repeated.
    """
    if path is None:
        yield None
        return
    from secondpass_evaluation.journal import Journal

    with Journal(path, partial=not kept) as journal:
        if not (resume or kept):
            journal.clear()
        try:
            yield journal
        finally:
            if len(journal) and not kept:  # it was not deleted
                info(f"finished rankings are in {path}; continue with --resume")
        if journal.reused:
            info(f"{journal.reused:,} finished rankings were read from {path}")

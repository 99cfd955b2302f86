"""Options of several subcommands that search."""

from __future__ import annotations

from typing import Annotated

import typer

from secondpass_evaluation.search.documents import SMALLEST_PASSAGE

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

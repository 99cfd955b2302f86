"""Options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondpass.settings.registry import preset_names


def complete_preset(incomplete: str) -> list[str]:
    """The names of presets that begin like this, for the completion of shells."""
    return [name for name in preset_names() if name.startswith(incomplete)]


Preset = Annotated[
    str | None,
    typer.Option("--preset", "-p", help="Name of a preset.", autocompletion=complete_preset),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file with a configuration.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Override a setting: `--set depth=50 --set method.device=cpu`. Repeatable, "
        "once for each setting.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        help="Ordering to apply after reranking: a name in the configuration's `orders`, "
        "`lost_in_the_middle`, a mapping such as `{type: tiers, …}`, or `none`.",
    ),
]
Instruction = Annotated[
    str | None,
    typer.Option(
        "--instruction",
        metavar="TEXT",
        help="What counts as relevant, such as `prefer recent documents`, for methods that take "
        "an instruction.",
    ),
]
TopK = Annotated[
    int | None, typer.Option("--top-k", "-k", min=1, help="Number of results per query.")
]
Depth = Annotated[int | None, typer.Option(min=1, help="Number of candidates to rerank.")]
Context = Annotated[
    Path | None, typer.Option(help="JSON or YAML file with context for every query.")
]
RunQueries = Annotated[
    Path | None, typer.Option(help="Queries of the run: JSON lines, or `id<TAB>text`.")
]
RunCorpus = Annotated[Path | None, typer.Option(help="Documents of the run: JSON lines.")]
WithText = Annotated[bool, typer.Option("--text/--no-text", help="Include texts and metadata.")]
Timings = Annotated[bool, typer.Option("--timings", help="Include durations.")]
Explain = Annotated[
    list[str] | None,
    typer.Option(
        "--explain",
        metavar="ID",
        help="Explain the rank of the candidate with this id, or why it is absent. Repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Estimate calls, tokens and cost without calling a model. JSON in a pipe.",
    ),
]

"""Options that ``secondpass serve`` and ``secondpass mcp`` share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from secondpass import Reranker
from secondpass.cli.console import USAGE_ERROR, fail, info
from secondpass.cli.options import Set, complete_preset, configuration, note_new_stores
from secondpass.settings import counted

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")]


@dataclass(frozen=True)
class ServedModels:
    """Which rerankers, by the model names that clients send."""

    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            "-p",
            metavar="NAME[=MODEL]",
            help="Preset to serve, and the model name that clients use for it. Repeatable; the "
            "first is the default.",
            autocompletion=complete_preset,
        ),
    ] = None
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE[=MODEL]",
            help="YAML file with a configuration to serve, and the model name that clients use "
            "for it. Default: the name of the file without its suffix. Repeatable.",
        ),
    ] = None
    settings: Set = None

    def read(self) -> dict[str, dict[str, Any]]:
        """The configurations, presets first; without any, the preset ``default``.

        The APIs that clients know score every document, so these do, too, unless that costs money.
        """
        configs: dict[str, dict[str, Any]] = {}
        for model, preset, file in self._sources():
            if model in configs:
                fail(f"--preset, --config: {model!r} is named twice; write NAME=MODEL", USAGE_ERROR)
            configs[model] = configuration(preset, file, self.settings, unordered=True)
        configs = configs or {"default": configuration(None, None, self.settings, unordered=True)}
        note_new_stores(*configs.values())
        return configs

    def _sources(self) -> Iterator[tuple[str, str | None, Path | None]]:
        """Model name with the name of a preset or the path of a file."""
        for value in self.preset or ():
            name, _, model = value.partition("=")
            yield model or name, name, None
        for value in self.config or ():
            # A path may contain "=".
            path, _, model = (value, "", "") if Path(value).exists() else value.rpartition("=")
            path, model = (path, model) if path else (value, "")
            yield model or Path(path).stem, None, Path(path)


def note_depths(rerankers: Mapping[str, Reranker], most: int) -> None:
    """Print the depth of each reranker that may get more documents: of a request at ``most``."""
    for name, reranker in rerankers.items():
        depth = reranker.depth
        if depth is not None and depth < most:
            info(
                f"{name}: the first {counted(depth, 'document')} of a request are scored; "
                f"`depth` in its file changes that, or --set depth={most} for all models"
            )


@dataclass(frozen=True)
class Keys:
    """The keys of clients."""

    api_key_env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIABLE",
            help="Environment variable with the keys that clients may use, separated by commas. "
            "Repeatable. Keys are required if other machines can reach the address.",
        ),
    ] = None
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the keys that clients may use, one per line. It is read again when "
            "it changes."
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """The settings of the server."""
        file = None if self.api_key_file is None else str(self.api_key_file)
        return {"api_key_env": self.api_key_env, "api_key_file": file}


@dataclass(frozen=True)
class Bounds:
    """The bounds of a ranking, and what its answer says."""

    deadline: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="Time limit of a ranking. When it is reached, the answer is the best order so "
            "far.",
        ),
    ] = None
    max_candidates: Annotated[
        int, typer.Option(min=1, help="Maximum number of candidates of a ranking.")
    ] = 1000
    max_characters: Annotated[
        int, typer.Option(min=1, help="Maximum number of characters in a candidate.")
    ] = 200_000
    issue_messages: Annotated[
        bool,
        typer.Option(
            "--issue-messages",
            help="Send clients the messages of issues. These may name internal addresses, "
            "variables and paths. By default clients get only codes, and the messages are "
            "logged.",
        ),
    ] = False

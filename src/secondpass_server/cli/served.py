"""Options that ``secondpass serve`` and ``secondpass mcp`` share, and their configurations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from secondpass.cli.shared import USAGE_ERROR, complete_preset, configuration, fail

Presets = Annotated[
    list[str] | None,
    typer.Option(
        "--preset",
        "-p",
        metavar="NAME[=MODEL]",
        help="Name of a preset, and the model name that clients call it by. Repeatable; the first "
        "is the default.",
        autocompletion=complete_preset,
    ),
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE[=MODEL]",
        help="YAML file with a configuration, and the model name that clients call it by. Default: "
        "the name of the file without its suffix. Repeatable.",
    ),
]
ApiKeyEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VARIABLE",
        help="Environment variable with keys that clients may use, separated by commas. "
        "Repeatable. Needed for an address that other machines can reach.",
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        help="File with keys that clients may use, one per line. It is read again when it changes."
    ),
]
IssueMessages = Annotated[
    bool,
    typer.Option(
        "--issue-messages",
        help="Show clients the messages of issues, which may name internal addresses, variables "
        "and paths. Otherwise they get codes, and the log has the messages.",
    ),
]


def configurations(
    presets: Sequence[str] | None, files: Sequence[str] | None, settings: Sequence[str] | None
) -> dict[str, dict[str, Any]]:
    """The configurations by model name, presets first; without any, the preset ``default``.

    Presets are ``NAME`` or ``NAME=MODEL``, files are ``PATH`` or ``PATH=MODEL``.
    """
    configs: dict[str, dict[str, Any]] = {}
    for model, preset, file in _sources(presets, files):
        if model in configs:
            fail(f"--preset, --config: {model!r} is named twice; write NAME=MODEL", USAGE_ERROR)
        configs[model] = configuration(preset, file, settings)
    return configs or {"default": configuration(None, None, settings)}


def _sources(
    presets: Sequence[str] | None, files: Sequence[str] | None
) -> Iterator[tuple[str, str | None, Path | None]]:
    """Model name with the name of a preset or the path of a file."""
    for value in presets or ():
        name, _, model = value.partition("=")
        yield model or name, name, None
    for value in files or ():
        # A path may contain "=".
        path, _, model = (value, "", "") if Path(value).exists() else value.rpartition("=")
        path, model = (path, model) if path else (value, "")
        yield model or Path(path).stem, None, Path(path)

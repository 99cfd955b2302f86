"""The command and its subcommands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from secondpass import __version__
from secondpass.cli.running import CommandGroup, Subcommand, report_errors

GROUPS = {
    "Rank": {
        "rerank": "secondpass.cli.commands.rerank:rerank",
        "pack": "secondpass.cli.commands.pack:pack",
        "plan": "secondpass.cli.commands.plan:plan",
        "job": "secondpass_ray.cli:job",
    },
    "Search": {
        "example": "secondpass_evaluation.cli.example:example",
        "index": "secondpass_evaluation.cli.index:index",
        "query": "secondpass_evaluation.cli.query:query",
        "store": "secondpass_evaluation.cli.store:store",
    },
    "Evaluate": {
        "eval": "secondpass_evaluation.cli.evaluate:evaluate",
        "tune": "secondpass_evaluation.cli.tune:tune",
        "calibrate": "secondpass_evaluation.cli.calibrate:calibrate",
        "judge": "secondpass_evaluation.cli.judge:judge",
    },
    "Serve": {
        "serve": "secondpass_server.cli.serve:serve",
        "mcp": "secondpass_server.cli.mcp:mcp",
    },
    "Models and configurations": {
        "presets": "secondpass.cli.commands.config:presets",
        "config": "secondpass.cli.commands.config:config_app",
        "doctor": "secondpass.cli.commands.doctor:doctor",
        "export": "secondpass.cli.commands.export:export",
    },
}
"""Module and function of each subcommand, as the help groups them.

The one place of the core that names the packages beside it.
"""

COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}
"""Module and function of each subcommand, by its name."""


class _LazyGroup(CommandGroup):
    """Imports and builds a subcommand when it is called; all take as long as typer itself."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as in typer
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        # All of them for an unknown name, so that typer suggests a similar one.
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _build(name)
        return self.commands.get(cmd_name)

    def sections(self, ctx: Any) -> Mapping[str, Iterable[str]]:  # noqa: ARG002
        return GROUPS


@cache
def _build(name: str) -> Any:
    module, _, member = COMMANDS[name].partition(":")
    command = getattr(import_module(module), member)
    if not isinstance(command, typer.Typer):
        function = command
        command = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        command.command(name, cls=Subcommand)(report_errors(function))
    return get_command(command)


app = typer.Typer(
    name="secondpass",
    cls=_LazyGroup,
    help="Rerank search results, search documents, and measure whether reranking helps.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rendering help as Markdown takes longer than everything else
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"secondpass {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the command itself."""

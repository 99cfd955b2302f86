"""The command and its subcommands."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from secondpass import __version__
from secondpass.cli.running import Subcommand, report_errors

COMMANDS = {
    "rerank": "secondpass.cli.commands.rerank:rerank",
    "job": "secondpass_ray.cli:job",
    "index": "secondpass_evaluation.cli.index:index",
    "query": "secondpass_evaluation.cli.query:query",
    "serve": "secondpass_server.cli.serve:serve",
    "mcp": "secondpass_server.cli.mcp:mcp",
    "export": "secondpass_server.cli.export:export",
    "plan": "secondpass.cli.commands.plan:plan",
    "presets": "secondpass.cli.commands.presets:presets",
    "schema": "secondpass.cli.commands.schema:schema",
    "doctor": "secondpass.cli.commands.doctor:doctor",
    "eval": "secondpass_evaluation.cli.evaluate:evaluate",
    "judge": "secondpass_evaluation.cli.judge:judge",
    "tune": "secondpass_evaluation.cli.tune:tune",
    "drift": "secondpass_evaluation.cli.drift:drift",
    "calibrate": "secondpass_evaluation.cli.calibrate:calibrate",
    "config": "secondpass.cli.commands.config:config_app",
}
"""Module and function of each subcommand, in the order of the help.

The one place of the core that names the packages beside it.
"""


class _LazyGroup(TyperGroup):
    """Imports and builds a subcommand when it is called; all take as long as typer itself."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as in typer
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        # All of them for an unknown name, so that typer suggests a similar one.
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _build(name)
        return self.commands.get(cmd_name)


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
    help="Rerank the candidates of a retriever, search documents, and measure whether reranking "
    "helps.",
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

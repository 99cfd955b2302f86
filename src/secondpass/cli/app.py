"""The command and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from secondpass import __version__
from secondpass.cli.commands import config
from secondpass.cli.commands.doctor import doctor
from secondpass.cli.commands.evaluate import evaluate
from secondpass.cli.commands.export import export
from secondpass.cli.commands.index import index
from secondpass.cli.commands.presets import presets
from secondpass.cli.commands.query import query
from secondpass.cli.commands.rerank import rerank
from secondpass.cli.commands.schema import schema
from secondpass.cli.running import report_errors

app = typer.Typer(
    name="secondpass",
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


for command in (rerank, index, query, export, presets, schema, doctor):
    app.command()(report_errors(command))
app.command("eval")(report_errors(evaluate))

config_app = typer.Typer(
    help="Check configurations without running them, and show them resolved.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app.command()(report_errors(config.validate))
config_app.command()(report_errors(config.show))
app.add_typer(config_app, name="config")

"""The command and its subcommands, each in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from secondpass import __version__
from secondpass.cli.configurations import presets, schema
from secondpass.cli.doctor import doctor
from secondpass.cli.evaluate import evaluate
from secondpass.cli.index import index
from secondpass.cli.query import query
from secondpass.cli.rerank import rerank
from secondpass.cli.terminal import guarded

app = typer.Typer(
    name="secondpass",
    help="A second, better ranking pass behind any retrieval: rerank, search, and see whether it "
    "helps.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """What every subcommand does first."""


for command in (rerank, index, query, presets, schema, doctor):
    app.command()(guarded(command))
app.command("eval")(guarded(evaluate))

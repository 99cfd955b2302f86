"""``secondpass presets``: the presets."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.table import Table

from secondpass.cli.console import on_terminal, print_json, print_yaml, result_console
from secondpass.cli.options import AsJson, complete_preset
from secondpass.config import preset
from secondpass.config import presets as all_presets


def presets(
    name: Annotated[
        str | None,
        typer.Argument(help="Preset to show as YAML.", autocompletion=complete_preset),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or show one as YAML.

    On a terminal the list is a table. In a pipe, and with `--json`, it is JSON.
    """
    if name is not None:
        config = preset(name)
        if as_json:
            print_json(config)
        else:
            print_yaml(config)
        return
    purposes = all_presets()
    if as_json or not on_terminal(sys.stdout):
        print_json(purposes)
        return
    table = Table("preset", "purpose", box=None, pad_edge=False)
    for preset_name, purpose in purposes.items():
        table.add_row(preset_name, purpose)
    result_console().print(table)

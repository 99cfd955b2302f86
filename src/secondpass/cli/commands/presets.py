"""``secondpass presets``: the presets."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
import yaml
from rich.syntax import Syntax
from rich.table import Table

from secondpass.cli.console import print_json, result_console
from secondpass.cli.options import AsJson
from secondpass.config import preset
from secondpass.config import presets as all_presets


def presets(
    name: Annotated[str | None, typer.Argument(help="Preset to show as YAML.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or show one as YAML, to start your own configuration from."""
    if name is not None:
        config = preset(name)
        if as_json:
            print_json(config)
        else:
            _print_yaml(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        return
    purposes = all_presets()
    if as_json:
        print_json(purposes)
        return
    table = Table("preset", "purpose", box=None, pad_edge=False)
    for preset_name, purpose in purposes.items():
        table.add_row(preset_name, purpose)
    result_console().print(table)


def _print_yaml(text: str) -> None:
    console = result_console()
    if console.is_terminal:
        console.print(Syntax(text, "yaml", background_color="default"))
    else:
        sys.stdout.write(text)

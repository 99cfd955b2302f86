"""``secondpass schema``: the JSON Schema of configurations."""

from __future__ import annotations

from secondpass.cli.console import print_json
from secondpass.cli.options import AsJson
from secondpass.config import json_schema


def schema(*, as_json: AsJson = True) -> None:  # noqa: ARG001 - the schema is JSON anyway
    """Write the JSON Schema of configurations, for editors.

    For example: `secondpass schema > secondpass.schema.json`, and as the first line of a YAML file
    `# yaml-language-server: $schema=secondpass.schema.json`.
    """
    print_json(json_schema())

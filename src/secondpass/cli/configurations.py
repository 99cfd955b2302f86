"""``secondpass presets`` and ``secondpass schema``; the options that say what to rerank by."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.syntax import Syntax
from rich.table import Table

from secondpass.call_options import validate
from secondpass.cli.terminal import WRONG_CALL, fail, print_json, results
from secondpass.config import (
    json_schema,
    load,
    merged,
    preset,
    preset_names,
    preset_purpose,
    read_yaml,
)
from secondpass.errors import ConfigurationError, InputError
from secondpass.reranker import Reranker
from secondpass.settings import yaml_text

Preset = Annotated[str | None, typer.Option("--preset", "-p", help="A preset's name.")]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="A YAML file with a configuration.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Change a setting: `--set depth=50 --set method.device=cpu`. May be repeated.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        help="Move items after they are ranked: a name of the configuration's `orders`, "
        "`lost_in_the_middle`, a mapping such as `{type: tiers, …}`, or `none`.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]


_USUAL_DEPTH = 50
"""How many are reranked where neither an option nor the configuration says it."""

_DEEPEST = 20
"""Steps of a setting's key."""


def configuration(
    preset_name: str | None,
    file: Path | None,
    settings: Sequence[str] | None,
    *,
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The configuration that the options describe; ``base`` where they say nothing.

    Without a base that is the preset ``default``.

    Raises:
        ConfigurationError: there is none, or a setting is no ``KEY=VALUE``.
    """
    if preset_name is not None and file is not None:
        fail("--preset, --config: give one of them", WRONG_CALL)
    if file is not None:
        config = read_yaml(file)
    elif base is not None and preset_name is None:
        config = dict(base)
    else:
        config = preset("default" if preset_name is None else preset_name)
    for setting in settings or ():
        config = merged(_spelled_out(config), _laid(setting))
    return config


def _laid(setting: str) -> dict[str, Any]:
    """What ``KEY=VALUE`` lays over a configuration."""
    key, equals, value = setting.partition("=")
    steps = key.split(".")
    if not equals or not all(steps) or len(steps) > _DEEPEST:
        raise ConfigurationError(f"--set {setting[:80]}: write KEY=VALUE, such as depth=50")
    if steps == ["preset"]:
        raise ConfigurationError("--set preset: use --preset")
    try:
        laid: Any = yaml_text.parse(value) if value.strip() else ""
    except yaml_text.TooLargeError as error:
        raise ConfigurationError(f"--set {key}: {error}") from None
    except yaml_text.NotYAMLError:
        laid = value
    for step in reversed(steps):
        laid = {step: laid}
    found: dict[str, Any] = laid
    return found


def _spelled_out(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose method has its settings beside it, so that one can be changed."""
    method = config.get("method")
    return {**config, "method": {"type": method}} if isinstance(method, str) else dict(config)


def ordering(reranker: Reranker, given: str | None) -> str | dict[str, Any] | None:
    """What ``--order`` says: a name, or a mapping. Ends if that is no ordering."""
    order: Any = given
    if given is not None and given.lstrip().startswith("{"):
        try:
            order = yaml_text.parse(given)
        except yaml_text.NotYAMLError:
            fail("--order: write a name, or a mapping such as {type: tiers, …}", WRONG_CALL)
    try:
        validate({"order": order}, reranker.orders)
    except InputError as error:
        fail(f"--{error}", WRONG_CALL)
    return order  # type: ignore[no-any-return]


def with_depth(config: Mapping[str, Any], top_n: int | None) -> dict[str, Any]:
    """A configuration with ``--rerank-top-n``, else with its own depth, else with 50."""
    if top_n is None and "depth" in config:
        return dict(config)
    return {**config, "depth": top_n or _USUAL_DEPTH}


def reranker_of(
    preset_name: str | None, file: Path | None, settings: Sequence[str] | None
) -> Reranker:
    """The reranker that the options describe.

    Raises:
        ConfigurationError: a setting is wrong.
        MissingExtraError: a package is not installed.
    """
    return load(configuration(preset_name, file, settings))


def presets(
    name: Annotated[str | None, typer.Argument(help="Show this one as YAML.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or show one as YAML to start a configuration of your own from."""
    if name is not None:
        config = preset(name)
        if as_json:
            print_json(config)
        else:
            text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
            _print_yaml(text)
        return
    purposes = {one: preset_purpose(one) for one in preset_names()}
    if as_json:
        print_json(purposes)
        return
    table = Table("preset", "what it is for", box=None, pad_edge=False)
    for one, purpose in purposes.items():
        table.add_row(one, purpose)
    results().print(table)


def schema(*, as_json: AsJson = True) -> None:  # noqa: ARG001 - it is JSON in any case
    """Write the JSON Schema of configurations, for editors: completion and checking as you type.

    For example: `secondpass schema > secondpass.schema.json`, and as the first line of a YAML file
    `# yaml-language-server: $schema=secondpass.schema.json`.
    """
    print_json(json_schema())


def _print_yaml(text: str) -> None:
    console = results()
    if console.is_terminal:
        console.print(Syntax(text, "yaml", background_color="default"))
    else:
        sys.stdout.write(text)


def named(config: Mapping[str, Any]) -> str:
    """A short name for a configuration, for reports: that of its method."""
    method = config.get("method")
    kind = method.get("type") if isinstance(method, Mapping) else method
    return kind if isinstance(kind, str) else "rerank"

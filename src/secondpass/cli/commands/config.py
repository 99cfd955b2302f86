"""``secondpass config`` and ``presets``: check and show configurations; nothing is run."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from secondpass.cli.console import (
    ERROR,
    USAGE_ERROR,
    fail,
    info,
    on_terminal,
    one_line,
    print_error,
    print_json,
    print_yaml,
    result_console,
    warn,
    write,
)
from secondpass.cli.options import AsJson, Preset, Set, complete_preset, configuration
from secondpass.cli.running import CommandGroup, Subcommand, naming_settings, report_errors
from secondpass.cli.tables import plain_table
from secondpass.config import json_schema, load, preset, preset_purpose
from secondpass.config import presets as all_presets
from secondpass.errors import ConfigurationError, MissingExtraError
from secondpass.ranking.stages import Stage
from secondpass.ranking.terms import unit_scale
from secondpass.reranker import Reranker
from secondpass.settings.keys import with_hidden_keys, with_placeholder_keys

_LEXICAL = (
    "lexical ranks worse than the retriever does; use embedded, or no fallback, which keeps the"
    " input order"
)

_HEAVY = 0.2
"""The sum of the weights of terms that is warned of above."""
_PRICE = "above 0.2 they cost much of the relevance if they have nothing to do with it"
_RELATIVE = (
    "0 to 1 is the spread of the scores in each list, so that weights count as shares of it,"
    " however small it is"
)

_FIRST = ("embedded", "multilingual", "default", "cohere", "cheap")
"""The presets that the list begins with: one of each kind, as in the README."""

_EXTRAS = {
    "anthropic": "anthropic",
    "cross_encoder": "openvino",
    "decisions": "remote",
    "embedded": "embedded",
    "embedded_multilingual": "multilingual",
    "endpoint": "remote",
    "google": "google",
    "openai": "openai",
}
"""Type in a preset -> the extra with its packages; other types need none of their own."""


def validate(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="YAML files; each has one configuration."),
    ] = None,
    preset: Preset = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Check every setting of configurations, and name the place of each error.

    No model is loaded, no connection is opened, and no key is needed. A missing package is only a
    warning, as is a fallback that ranks worse than none; `secondpass doctor` runs a configuration.
    The exit code is 1 if a configuration is wrong.

    For example: `secondpass config validate rerank.yaml`
    """
    sources: list[Path | None] = [*(files or ())]
    if not sources and preset is not None:
        sources = [None]
    if not sources:
        fail("missing FILE, or --preset (see --help)", USAGE_ERROR)
    records = []
    for file in sources:
        name = str(preset if file is None else file)
        record: dict[str, Any] = {"configuration": name, "valid": True, "problems": []}
        try:
            config, missing, reranker = _checked(preset, file, settings)
        except ConfigurationError as error:
            problems = [{"path": [*item.path], "message": item.message} for item in error.problems]
            record |= {"valid": False, "problems": problems}
            print_error(str(naming_settings(error, settings or ())))
        else:
            record["missing"] = missing
            record["warnings"] = [f"{path}: {_LEXICAL}" for path in _lexical_fallbacks(config)]
            record["warnings"] += _about_terms(reranker)
            if missing is not None:
                warn(f"{name}: {missing}")
            for message in record["warnings"]:
                warn(f"{name}: {message}")
            if not as_json:
                write(one_line(f"{name}: valid") + "\n")
        records.append(record)
    if as_json:
        print_json(records)
    if not all(record["valid"] for record in records):
        raise typer.Exit(ERROR)


def show(
    *,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="YAML file with a configuration.")
    ] = None,
    preset: Preset = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Show a configuration as YAML, merged with its preset and with `--set` applied.

    It is checked as by `secondpass config validate`. Variables are shown by name and not read. Keys
    are never shown.

    For example: `secondpass config show rerank.yaml --set depth=20`
    """
    if file is None and preset is None:
        fail("missing FILE, or --preset (see --help)", USAGE_ERROR)
    config, missing, _ = _checked(preset, file, settings)
    if missing is not None:
        warn(f"{preset if file is None else file}: {missing}")
    if as_json:
        print_json(with_hidden_keys(config))
    else:
        print_yaml(with_hidden_keys(config))


def _lexical_fallbacks(value: Any, path: str = "", fallback: bool = False) -> Iterator[str]:
    """The places of fallbacks that are `lexical` without a blend."""
    if isinstance(value, Mapping):
        if fallback and value.get("type") == "lexical" and not value.get("blend"):
            yield path
        for key, item in value.items():
            yield from _lexical_fallbacks(item, f"{path}.{key}".lstrip("."), key == "fallback")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _lexical_fallbacks(item, f"{path}[{index}]", fallback)
    elif fallback and value == "lexical":
        yield path


def _about_terms(reranker: Reranker | None) -> Iterator[str]:
    """Warnings about terms: heavy ones, and scores that are relative to the list."""
    if reranker is None or not reranker.terms:
        return
    total = math.fsum(term.weight for term in reranker.terms)
    if total > _HEAVY:
        yield f"terms: their weights are {total:g} in all; {_PRICE}"
    stage = Stage(reranker.method, reranker.blend)
    for place, each in [("method", stage), *(("fallback", one) for one in reranker.fallback)]:
        if unit_scale(each.method.score_kind, each.blend) == "minmax":
            kind = each.method.score_kind if each.blend is None else each.blend.normalize
            yield f"terms: with {place} {each.method.name} ({kind}), {_RELATIVE}"


def _checked(
    preset: str | None, file: Path | None, settings: list[str] | None
) -> tuple[Mapping[str, Any], str | None, Reranker | None]:
    """A configuration, which packages are missing to run it, if any, and else the reranker."""
    if preset is not None and file is not None:
        fail("FILE, --preset: give one of them", USAGE_ERROR)
    config = configuration(preset, file, settings)
    try:
        reranker = load(with_placeholder_keys(config))
    except MissingExtraError as error:  # raised last, when all settings have been checked
        return config, str(error), None
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, str(preset if file is None else file)) from None
    return config, None, reranker


def schema(*, as_json: AsJson = True) -> None:  # noqa: ARG001 - the schema is JSON anyway
    """Write the JSON Schema of configurations, for editors.

    For example: `secondpass config schema > secondpass.schema.json`, and as the first line of a
    YAML file `# yaml-language-server: $schema=secondpass.schema.json`.
    """
    print_json(json_schema())


config_app = typer.Typer(
    cls=CommandGroup,
    help="Check configurations, show them whole, or write their JSON Schema.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app.command(cls=Subcommand)(report_errors(validate))
config_app.command(cls=Subcommand)(report_errors(show))
config_app.command(cls=Subcommand)(report_errors(schema))


def presets(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the preset to show as YAML.", autocompletion=complete_preset),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or show one as YAML.

    The list begins with one preset of each kind of model. On a terminal it is a table with a
    summary of each; in a pipe, and with `--json`, it is JSON with all that each is for.
    """
    if name is not None:
        config = preset(name)
        if as_json:
            print_json(config)
            return
        print_yaml(config)
        if on_terminal(sys.stdout):
            info(preset_purpose(name))
        return
    purposes = all_presets()
    purposes = {name: purposes[name] for name in _FIRST} | purposes
    if as_json or not on_terminal(sys.stdout):
        print_json(purposes)
        return
    table = plain_table("preset", "extra", "purpose")
    for preset_name, purpose in purposes.items():
        extras = dict.fromkeys(_extras_of(preset(preset_name)["method"]))
        summary = purpose.split(". ")[0].removesuffix(".")
        table.add_row(preset_name, ", ".join(extras) or "none", summary)
    result_console().print(table)
    info(
        "`secondpass presets NAME` shows a preset, with more on what it is for. On a GPU, the "
        "extra sentence-transformers takes the place of openvino."
    )


def _extras_of(method: Any) -> Iterator[str]:
    """The extras that the method of a preset needs; its fallbacks do without theirs."""
    if isinstance(method, Mapping):
        if (extra := _EXTRAS.get(str(method.get("type")))) is not None:
            yield extra
        method = [*method.values()]
    if isinstance(method, list):
        for value in method:
            yield from _extras_of(value)

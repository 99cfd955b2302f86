"""``secondpass doctor``: what is installed, and whether a configuration can run."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from secondpass import __version__
from secondpass.cli.configurations import configuration
from secondpass.cli.console import (
    ERROR,
    escaped,
    on_terminal,
    one_line,
    print_json,
    result_console,
)
from secondpass.cli.network import check_network
from secondpass.cli.options import AsJson, Config, Preset, Set
from secondpass.config import load
from secondpass.errors import ConfigurationError, SecondPassError
from secondpass.types import Candidate

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+).*?extra\s*==\s*['\"]([\w-]+)['\"]")
_QUERY = "Which fruit is rich in potassium?"
_CANDIDATES = (
    Candidate("The moon moves around the earth.", "moon", 0.6),
    Candidate("Bananas are rich in potassium.", "banana", 0.5),
)


def doctor(
    *,
    preset_name: Preset = None,
    config: Config = None,
    settings: Set = None,
    network: Annotated[
        bool,
        typer.Option(
            "--network",
            help="Also check variables for keys and addresses, and connect to the addresses.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is installed, and check whether a configuration can run.

    With `--preset` or `--config`, the reranker is constructed, its models are loaded, and it ranks
    two sentences; a model behind an API receives one request. `--network` opens a connection to
    each address and sends nothing. Keys are never shown, only whether their variables are set. The
    exit code is 1 if the configuration cannot run. In a pipe, and with `--json`, it is JSON.
    """
    result: dict[str, Any] = {
        "secondpass": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "extras": _extras(),
    }
    config_values: dict[str, Any] | None = None
    if preset_name is not None or config is not None or settings:
        try:
            config_values = configuration(preset_name, config, settings)
        except ConfigurationError as error:
            result["reranker"] = {"runs": False, "reason": str(error)}
    if network:
        result["network"] = check_network(config_values)
    if config_values is not None:
        result["reranker"] = _run_reranker(config_values)
    if as_json or not on_terminal(sys.stdout):
        print_json(result)
    else:
        _print(result)
    if not result.get("reranker", {}).get("runs", True):
        raise typer.Exit(ERROR)


def _extras() -> dict[str, Any]:
    from importlib import metadata

    extras: dict[str, dict[str, str | None]] = {}
    try:
        requirements = metadata.requires("secondpass") or []
    except metadata.PackageNotFoundError:  # run from source without an installation
        requirements = []
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match and match[2] != "dev":
            extras.setdefault(match[2], {})[match[1]] = _version(match[1])
    return {
        extra: {
            "installed": None not in packages.values(),
            "packages": packages,
            "install": f'pip install "secondpass[{extra}]"',
        }
        for extra, packages in sorted(extras.items())
    }


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _run_reranker(config: Mapping[str, Any]) -> dict[str, Any]:
    """Construct a reranker, load its models, and rank two sentences."""
    result: dict[str, Any] = {"runs": False}
    try:
        reranker = load({**config, "log_level": "debug"})  # issues are printed, not logged
        reranker.cache = None  # a cached answer would hide a service that is down
        result["made"] = True
        try:
            reranker.warm_up()
            result["loaded"] = True
            ranking = reranker.rerank(_QUERY, _CANDIDATES)
        finally:
            reranker.close()
    except SecondPassError as error:
        return {**result, "reason": str(error)}
    except Exception as error:  # of another package; its message may contain a key
        return {**result, "reason": f"{type(error).__name__} was raised"}
    report = ranking.report
    result["runs"] = report.status == "ok"
    result["order"] = [item.id for item in ranking]
    result["report"] = report.to_dict()
    if not result["runs"]:
        issues = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
        result["reason"] = f"the ranking is {report.status}: {issues}"
    return result


def _print(result: Mapping[str, Any]) -> None:
    console = result_console()
    console.print(
        f"secondpass {result['secondpass']}, Python {result['python']}, {result['platform']}\n",
        markup=False,
    )
    table = Table("extra", "", "packages", box=None, pad_edge=False)
    for extra, details in result["extras"].items():
        packages = ", ".join(
            f"{name} {version or 'is missing'}" for name, version in details["packages"].items()
        )
        state = Text("yes", "green") if details["installed"] else Text("no", "yellow")
        if not details["installed"]:
            packages = f"{details['install']}: {packages}"
        table.add_row(extra, state, Text(packages))
    console.print(table)
    if "network" in result:
        console.print()
        table = Table("variable", "", box=None, pad_edge=False)
        for name, is_set in result["network"]["variables"].items():
            table.add_row(Text(one_line(name)), "set" if is_set else "not set")
        console.print(table)
        for address, status in result["network"]["addresses"].items():
            console.print(Text(one_line(f"{address}: {status}")))
    if "reranker" in result:
        console.print()
        console.print(_reranker_line(result["reranker"]))


def _reranker_line(result: Mapping[str, Any]) -> Text:
    if not result["runs"]:
        return Text("cannot run: ", "bold red") + Text(escaped(result["reason"]))
    report = result["report"]
    usage = report["usage"]
    details = (
        f"status {report['status']}, method {report['method']}, {report['seconds']:.2f} s, "
        f"{usage['calls']} calls, {usage['pairs']} pairs; first: {result['order'][0]}"
    )
    return Text("runs: ", "bold green") + Text(escaped(details))

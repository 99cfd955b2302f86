"""``secondpass doctor``: what is installed, and whether what is configured can run."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.table import Table
from rich.text import Text

from secondpass import __version__
from secondpass.cli.configurations import AsJson, Config, Preset, Set, configuration
from secondpass.cli.terminal import FAULT, one_line, plain, print_json, results
from secondpass.config import load, preset, preset_names
from secondpass.errors import ConfigurationError, SecondPassError
from secondpass.settings import variable
from secondpass.settings.environment import read
from secondpass.types import Candidate

_PATIENCE = 3.0
"""Seconds that a connection may take."""

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+).*?extra\s*==\s*['\"]([\w-]+)['\"]")
_DEFAULT_PORTS = {"http": 80, "https": 443}
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
            "--network", help="Also: which keys and addresses are set, and what can be reached."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is installed, and with `--preset` or `--config` whether it can run.

    It is then made, its models are loaded, and it ranks two sentences; a model behind an API is
    asked once for that. `--network` opens a connection to each address and sends nothing. Keys are
    never shown, only whether their variables are set. The exit code is 1 if what was asked for
    cannot run.
    """
    told: dict[str, Any] = {
        "secondpass": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "extras": _extras(),
    }
    asked = preset_name is not None or config is not None or bool(settings)
    described: dict[str, Any] | None = None
    if asked:
        try:
            described = configuration(preset_name, config, settings)
        except ConfigurationError as error:
            told["reranker"] = {"runs": False, "reason": str(error)}
    if network:
        told["network"] = _network(described)
    if described is not None:
        told["reranker"] = _tried(described)
    runs = told.get("reranker", {}).get("runs", True)
    if as_json:
        print_json(told)
    else:
        _show(told)
    if not runs:
        raise typer.Exit(FAULT)


def _extras() -> dict[str, Any]:
    found: dict[str, dict[str, str | None]] = {}
    try:
        requirements = metadata.requires("secondpass") or []
    except metadata.PackageNotFoundError:  # run from its source, without being installed
        requirements = []
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match and match[2] != "dev":
            found.setdefault(match[2], {})[match[1]] = _version(match[1])
    return {
        extra: {
            "installed": None not in packages.values(),
            "packages": packages,
            "install": f'pip install "secondpass[{extra}]"',
        }
        for extra, packages in sorted(found.items())
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# ---------------------------------------------------------------------- the network


def _network(described: Mapping[str, Any] | None) -> dict[str, Any]:
    """Which variables are set, and what answers; of the configuration, if there is one."""
    from secondpass.llms.anthropic import AnthropicMessages
    from secondpass.llms.google import GoogleGenAI
    from secondpass.llms.openai import OpenAIChat
    from secondpass.strategies.endpoint import APIS

    if described is not None:
        names = {*_variables(described), *_usual_keys(described)}
        addresses = {*_addresses(described)}
    else:
        providers = (AnthropicMessages, GoogleGenAI, OpenAIChat)
        names = {name for provider in providers for name in provider.key_variables}
        names |= {name for api in APIS.values() for name in api.key_variables}
        for one in preset_names():
            names |= {*_variables(preset(one))}
        addresses = {
            api.url for api in APIS.values() if api.url and any(map(_is_set, api.key_variables))
        }
        addresses |= {os.environ[name] for name in names if name.endswith("_URL") and _is_set(name)}
    places = sorted({_place(address) for address in addresses})
    return {
        "variables": {name: _is_set(name) for name in sorted(names)},
        "addresses": {place: _reached(place) for place in places},
    }


def _is_set(name: str) -> bool:
    return bool(variable(name))


def _walk(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The mappings in a configuration that nobody has checked: it may even hold itself."""
    waiting: list[Any] = [config]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _variables(config: Mapping[str, Any]) -> Iterator[str]:
    """The variables that a configuration names."""
    for part in _walk(config):
        for key in ("env", "api_key_env", "token_env"):
            named = part.get(key)
            named = named if isinstance(named, list) else [named]
            yield from (name for name in named if isinstance(name, str))


def _usual_keys(config: Mapping[str, Any]) -> Iterator[str]:
    """The variables in which its providers look for a key where it names none."""
    from secondpass.settings import registry
    from secondpass.strategies.endpoint import APIS

    for part in _walk(config):
        if "api_key_env" in part or "base_url" in part:
            continue
        kind = part.get("provider") if part.get("type") == "decisions" else part.get("type")
        api = read(part.get("api"))
        if kind == "endpoint" and isinstance(api, str) and api in APIS:
            yield from APIS[api].key_variables
        elif isinstance(kind, str) and kind in registry.names("llms"):
            yield from getattr(registry.kind("llms", kind), "key_variables", ())


def _addresses(config: Mapping[str, Any]) -> Iterator[str]:
    from secondpass.strategies.endpoint import APIS

    for part in _walk(config):
        address, api = read(part.get("base_url")), read(part.get("api"))
        if isinstance(address, str):
            yield address
        elif part.get("type") == "endpoint" and isinstance(api, str) and api in APIS:
            yield APIS[api].url or ""


def _place(address: str) -> str:
    """Where an address leads, without a password or a path; as it is where it leads nowhere."""
    try:
        parts = urlsplit(address)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return "an address that cannot be read"
    if not parts.hostname or port is None:
        return "an address that cannot be read"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def _reached(place: str) -> str:
    """``reached``, or why not."""
    parts = urlsplit(place)
    if not parts.hostname or parts.port is None:
        return "not an address of http or https"
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE).close()
    except TimeoutError:
        return f"no connection within {_PATIENCE:g} s"
    except (OSError, UnicodeError) as error:
        return f"not reached: {getattr(error, 'strerror', None) or type(error).__name__}"
    return "reached"


# ---------------------------------------------------------------------- a reranker


def _tried(described: Mapping[str, Any]) -> dict[str, Any]:
    """Make a reranker, load its models, and rank two sentences."""
    steps: dict[str, Any] = {"runs": False}
    try:
        reranker = load({**described, "log_level": "debug"})  # what goes wrong is told here
        steps["made"] = True
        try:
            reranker.warm_up()
            steps["loaded"] = True
            ranking = reranker.rerank(_QUERY, _CANDIDATES)
        finally:
            reranker.close()
    except SecondPassError as error:
        return {**steps, "reason": str(error)}
    except Exception as error:  # of another package; its message may hold a key
        return {**steps, "reason": f"it raised {type(error).__name__}"}
    report = ranking.report
    steps["runs"] = report.status == "ok"
    steps["order"] = [item.id for item in ranking]
    steps["report"] = report.to_dict()
    if not steps["runs"]:
        issues = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
        steps["reason"] = f"the ranking is {report.status}: {issues}"
    return steps


# ---------------------------------------------------------------------- for people


def _show(told: Mapping[str, Any]) -> None:
    console = results()
    console.print(
        f"secondpass {told['secondpass']}, Python {told['python']}, {told['platform']}\n",
        markup=False,
    )
    table = Table("extra", "", "packages", box=None, pad_edge=False)
    for extra, one in told["extras"].items():
        packages = ", ".join(
            f"{name} {version or 'is missing'}" for name, version in one["packages"].items()
        )
        state = Text("yes", "green") if one["installed"] else Text("no", "yellow")
        if not one["installed"]:
            packages = f"{one['install']}: {packages}"
        table.add_row(extra, state, Text(packages))
    console.print(table)
    if "network" in told:
        console.print()
        table = Table("variable", "", box=None, pad_edge=False)
        for name, is_set in told["network"]["variables"].items():
            table.add_row(Text(one_line(name)), "set" if is_set else "not set")
        console.print(table)
        for place, state in told["network"]["addresses"].items():
            console.print(Text(one_line(f"{place}: {state}")))
    if "reranker" in told:
        console.print()
        console.print(_told_reranker(told["reranker"]))


def _told_reranker(one: Mapping[str, Any]) -> Text:
    if not one["runs"]:
        return Text("cannot run: ", "bold red") + Text(plain(one["reason"]))
    report = one["report"]
    usage = report["usage"]
    told = (
        f"status {report['status']}, method {report['method']}, {report['seconds']:.2f} s, "
        f"{usage['calls']} calls, {usage['pairs']} pairs; first: {one['order'][0]}"
    )
    return Text("runs: ", "bold green") + Text(plain(told))

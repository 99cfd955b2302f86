"""Whether the variables that a configuration needs are set, and its addresses are reached."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from secondpass.config import preset, preset_names
from secondpass.errors import ConfigurationError
from secondpass.services.network import environment, proxy_for
from secondpass.settings import registry, variable
from secondpass.settings.environment import read

if TYPE_CHECKING:
    from secondpass.apis.descriptions import Api
    from secondpass.settings.descriptions import Descriptions

_TIMEOUT = 3.0
"""Seconds to wait for a connection."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_network(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Which variables are set, and which addresses can be reached.

    The configuration need not be valid. Without one, they are those of every provider and preset;
    addresses only where their variable, or that of the key, is set.
    """
    from secondpass.apis.decision_descriptions import DECISION_APIS
    from secondpass.apis.descriptions import APIS

    apis = [*APIS.values(), *DECISION_APIS.values()]
    if config is not None:
        names = {*_named_variables(config), *_default_variables(config)}
        addresses = {*_addresses(config)}
    else:
        names = {name for kind in registry.names("llms") for name in _key_variables(kind)}
        names |= {name for api in apis for name in api.key_variables}
        for preset_name in preset_names():
            names |= {*_named_variables(preset(preset_name))}
        addresses = {api.url for api in apis if api.url and any(map(_is_set, api.key_variables))}
        addresses |= {os.environ[name] for name in names if name.endswith("_URL") and _is_set(name)}
    origins = sorted({_origin(address) for address in addresses})
    return {
        "variables": {name: _is_set(name) for name in sorted(names)},
        "environment": environment(),
        "addresses": {origin: _reached(origin) for origin in origins},
    }


def _reached(origin: str) -> str:
    """``reached``, or why not. What is sent through a proxy is not tried."""
    proxy = proxy_for(origin)
    return _connect(origin) if proxy is None else f"through {proxy}"


def _is_set(name: str) -> bool:
    return bool(variable(name))


def _key_variables(provider: str) -> tuple[str, ...]:
    """The variables in which a provider looks for its key."""
    try:
        variables: tuple[str, ...] = getattr(registry.kind("llms", provider), "key_variables", ())
    except ConfigurationError:  # of another package, and cannot be loaded
        return ()
    return variables


def _mappings(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All mappings in an unchecked configuration, which may contain itself."""
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


def _named_variables(config: Mapping[str, Any]) -> Iterator[str]:
    """The variables that a configuration names."""
    for mapping in _mappings(config):
        for key in ("env", "api_key_env", "token_env"):
            value = mapping.get(key)
            names = value if isinstance(value, list) else [value]
            yield from (name for name in names if isinstance(name, str))


def _default_variables(config: Mapping[str, Any]) -> Iterator[str]:
    """The variables in which providers look for keys if a configuration names none."""
    for mapping in _mappings(config):
        if "api_key_env" in mapping or "base_url" in mapping:
            continue
        kind = mapping.get("type")
        if (api := _described_api(mapping)) is not None:
            yield from api.key_variables
        elif isinstance(kind, str) and kind in registry.names("llms"):
            yield from _key_variables(kind)


def _addresses(config: Mapping[str, Any]) -> Iterator[str]:
    for mapping in _mappings(config):
        address = read(mapping.get("base_url"))
        if isinstance(address, str):
            yield address
        elif (api := _described_api(mapping)) is not None:
            yield api.url or ""


def _described_api(mapping: Mapping[str, Any]) -> Api | None:
    """The API of a method's settings; None for other methods, and if they are wrong."""
    from secondpass.apis.decision_descriptions import DECISION_APIS
    from secondpass.apis.descriptions import APIS

    kinds: Mapping[str, Descriptions[Any]] = {"endpoint": APIS, "decisions": DECISION_APIS}
    kind = mapping.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        return None
    try:
        api: Api = kinds[kind].resolve(read(mapping.get("api")))
        return api
    except ConfigurationError:
        return None


def _origin(address: str) -> str:
    """Scheme, host and port of an address, without user and password."""
    try:
        parts = urlsplit(address)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return "an invalid address"
    if not parts.hostname or port is None:
        return "an invalid address"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def _connect(origin: str) -> str:
    """``reached``, or why not."""
    parts = urlsplit(origin)
    if not parts.hostname or parts.port is None:
        return "not an address of http or https"
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=_TIMEOUT).close()
    except TimeoutError:
        return f"no connection within {_TIMEOUT:g} s"
    except (OSError, UnicodeError) as error:
        return f"not reached: {getattr(error, 'strerror', None) or type(error).__name__}"
    return "reached"

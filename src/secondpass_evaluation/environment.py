"""The date, package versions, machine and command line (without secrets) of a comparison."""

from __future__ import annotations

import os
import platform
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from secondpass.concurrency.processor import usable_cpus
from secondpass.settings.keys import may_name_key

_PACKAGES = (
    "secondpass", "ir-measures", "bm25s", "scipy", "numpy", "tokenizers", "onnxruntime",
    "openvino", "torch", "transformers", "sentence-transformers", "openai", "anthropic",
    "google-genai",
)  # fmt: skip
"""Packages on which figures or times depend."""


def timestamp() -> str:
    """The time in UTC, to the second, by ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def today() -> str:
    """The day in UTC, by ISO 8601."""
    return datetime.now(UTC).date().isoformat()


def versions() -> dict[str, str]:
    """The versions of Python and of the installed packages, by name."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            installed[package] = _version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


@cache  # it reads files; what is not installed is looked for again
def _version(package: str) -> str:
    return metadata.version(package)


def machine() -> dict[str, Any]:
    """System, processor, usable cores and memory in GB, as far as known; not the host name."""
    properties: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}".strip(),
        "processor": _processor(),
        "cores": usable_cpus(),
    }
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        properties["memory_gb"] = round(memory / 1e9, 1)
    except (AttributeError, OSError, ValueError):
        pass
    return {name: value for name, value in properties.items() if value}


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's model, as Linux names it; elsewhere what Python knows."""
    try:
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor()


_MASK = "***"
_ASSIGNMENT = re.compile(r"(?s)((?:--?[A-Za-z][\w-]*=)?(-?-?[\w.-]+)=)(.*)")
_INNER_NAME = re.compile(r"[\"']?([\w-]+)[\"']?\s*[:=]")
_ADDRESS = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/?#]*@")
_ADDRESS_TAIL = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s?#]*)[?#]\S*")
_KNOWN_KEY = re.compile(
    r"(?i)\b(?:bearer\s+|(?:sk|pk|rk|hf|gsk|xai|pplx|pa|jina|r8|ghp|glpat)[-_]|AIza)[\w-]{8,}"
)
_LONG_RUN = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{32,}\b")
_SHORTEST = 6
"""Characters of a variable's value from which on it is looked for."""


def masked(arguments: Sequence[str]) -> str:
    """The command line as a shell reads it; what may be a secret is replaced by ``***``.

    These are the values of settings named like a key (in ``--set`` and everywhere else), user,
    password, query and fragment of addresses, what looks like a key, and the values of environment
    variables that are named like one.
    """
    secrets = _secret_values()
    return shlex.join(["secondpass", *(_masked(argument, secrets) for argument in arguments)])


def _masked(argument: str, secrets: Sequence[str]) -> str:
    for value in secrets:
        argument = argument.replace(value, _MASK)
    if match := _ASSIGNMENT.fullmatch(argument):
        start, name, value = match.groups()
        inner = _INNER_NAME.findall(value)
        if any(map(may_name_key, (name, *inner))):
            return start + _MASK
    argument = _ADDRESS.sub(rf"\1{_MASK}@", argument)
    argument = _ADDRESS_TAIL.sub(rf"\1?{_MASK}", argument)
    argument = _KNOWN_KEY.sub(_MASK, argument)
    return _LONG_RUN.sub(_MASK, argument)


def _secret_values() -> list[str]:
    """The values of variables named like a secret, the longest first."""
    values = {
        value.strip()
        for name, value in os.environ.items()
        if may_name_key(name) and len(value.strip()) >= _SHORTEST
    }
    return sorted(values, key=len, reverse=True)

"""The date, package versions and machine of a comparison."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from secondpass.scorers.engines.processor import usable_cpus

_PACKAGES = (
    "secondpass", "ir-measures", "bm25s", "scipy", "numpy", "tokenizers", "onnxruntime",
    "openvino", "torch", "transformers", "sentence-transformers", "openai", "anthropic",
    "google-genai",
)  # fmt: skip
"""Packages on which figures or times depend."""


def now() -> str:
    """The time in UTC, to the second, by ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


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

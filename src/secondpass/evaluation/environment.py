"""When, with which packages and on what machine a comparison is made."""

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
    """Version by package, of those that are installed, and that of Python."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        if (version := _version(package)) is not None:
            found[package] = version
    return found


@cache
def _version(package: str) -> str | None:
    """The installed version; finding it reads a file of up to 100 kB."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """System, processor, cores that can be used, and memory in GB; never the machine's name.

    What cannot be found out is left out.
    """
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}".strip(),
        "processor": _processor(),
        "cores": usable_cpus(),
    }
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        found["memory_gb"] = round(memory / 1e9, 1)
    except (AttributeError, OSError, ValueError):
        pass
    return {name: value for name, value in found.items() if value}


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

"""Writes configurations as YAML, with the evidence for them as comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from secondpass import ConfigurationError, InputError
from secondpass.formats.files import atomic_write
from secondpass.formats.lines import AnyPath
from secondpass.markup import clean
from secondpass.settings.keys import literal_keys
from secondpass.settings.yaml_text import NotYAMLError
from secondpass.settings.yaml_text import write as to_yaml

_WIDTH = 100
"""Characters of a line of comments."""

_SUFFIXES = (".yaml", ".yml")

TUNED = "Written by secondpass tune"
"""Beginning of the first comment of a configuration that ``tune`` wrote."""


def with_provenance(config: Mapping[str, Any], lines: Iterable[str]) -> str:
    """A configuration as YAML, after comments."""
    if problems := [*literal_keys(config)]:
        raise ConfigurationError(problems, "configuration")
    try:
        body = to_yaml(dict(config))
    except NotYAMLError as error:
        raise ConfigurationError(str(error), "configuration") from None
    return "".join(f"{comment}\n" for line in lines for comment in _comment(line)) + body


def tuning_notes(path: AnyPath) -> list[str]:
    """A note if ``tune`` chose the configuration of this file, as its first comment says.

    A threshold that is fitted on the same queries keeps less of others than it says.
    """
    file = Path(path)
    if file.suffix not in _SUFFIXES or not file.is_file():
        return []
    with file.open(encoding="utf-8", errors="replace") as lines:
        comments = [line[1:].strip() for line in takewhile(lambda line: line[:1] == "#", lines)]
    if not comments or not comments[0].startswith(TUNED):
        return []
    return [
        f"{file.name} was chosen by tuning. If that was on the same queries, the shares are too "
        "high for other queries; calibrate on queries that had no part in tuning"
    ]


def check_output(path: AnyPath, *, force: bool = False) -> Path:
    """Check the path of a configuration to write; call it before any expensive work."""
    file = Path(path)
    if file.suffix not in _SUFFIXES:
        raise InputError(f"{file}: must end in .yaml or .yml")
    return check_free(file, force=force)


def check_free(file: Path, *, force: bool) -> Path:
    """Check that a file can be written: its folder exists, and it does not, unless forced."""
    if file.is_dir():
        raise InputError(f"{file}: is a folder; give the name of a file")
    if not file.parent.is_dir():
        raise InputError(f"{file}: the folder {file.parent} does not exist")
    if file.exists() and not force:
        raise InputError(f"{file}: already exists; use force=True to overwrite it")
    return file


def write_config(
    path: AnyPath, config: Mapping[str, Any], lines: Iterable[str], *, force: bool = False
) -> Path:
    """Write a configuration and comments to a file, atomically."""
    target = check_output(path, force=force)
    text = with_provenance(config, lines)
    with atomic_write(target) as file:
        file.write(text.encode())
    return target


def _comment(line: str) -> list[str]:
    """The lines of a comment; those after the first are indented."""
    words = " ".join(clean(line).split())
    wrapped = textwrap.wrap(
        words, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return wrapped or ["#"]

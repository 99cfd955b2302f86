"""Configurations that are written with the evidence they rest on, as comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from secondpass.config.keys import literal_keys
from secondpass.errors import ConfigurationError, InputError
from secondpass.formats.files import atomic_write
from secondpass.formats.lines import AnyPath
from secondpass.formats.markup import clean

_WIDTH = 100
"""Characters of a line of comments."""

_SEPARATORS = "\x85\u2028\u2029"
_SUFFIXES = (".yaml", ".yml")


def with_provenance(config: Mapping[str, Any], lines: Iterable[str]) -> str:
    """A configuration as YAML, after comments that say where it comes from.

    Args:
        config: plain values, as :meth:`~secondpass.Reranker.to_config` returns them; what is
            loaded from the text is equal to it.
        lines: the comments, without ``#``. Each begins on a new line and is wrapped; line feeds
            and control characters cannot end a comment. An empty one separates paragraphs.

    Raises:
        ConfigurationError: the configuration holds a key, which no file may, or an object that
            YAML has no form for.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    if problems := [*literal_keys(config)]:
        raise ConfigurationError(problems, "configuration")
    try:
        body = yaml.dump(dict(config), Dumper=Dumper, sort_keys=False, allow_unicode=True)
        if any(separator in body for separator in _SEPARATORS):  # PyYAML would read them as spaces
            body = yaml.dump(dict(config), Dumper=Dumper, sort_keys=False)
    except yaml.YAMLError:
        message = "has an object that cannot be written as YAML; give plain values"
        raise ConfigurationError(message, "configuration") from None
    return "".join(f"{comment}\n" for line in lines for comment in _comment(line)) + body


def check_output(path: AnyPath, *, force: bool = False) -> Path:
    """The path of a configuration to write; to be called before any work is done.

    Raises:
        InputError: it is no name of a YAML file, its folder does not exist, or there is such a file
            and ``force`` is not set.
    """
    place = Path(path)
    if place.suffix not in _SUFFIXES:
        raise InputError(f"{place}: must end in .yaml or .yml")
    if place.is_dir() or not place.parent.is_dir():
        where = "is a folder" if place.is_dir() else f"the folder {place.parent} does not exist"
        raise InputError(f"{place}: {where}")
    if place.exists() and not force:
        raise InputError(f"{place}: already exists; use --force (force=True) to overwrite it")
    return place


def write_config(
    path: AnyPath, config: Mapping[str, Any], lines: Iterable[str], *, force: bool = False
) -> Path:
    """Write :func:`with_provenance` to a file: all of it, or nothing.

    Args:
        path: the file, ``.yaml`` or ``.yml``.
        config: as above.
        lines: likewise.
        force: overwrite the file if there is one.

    Raises:
        ConfigurationError: as above.
        InputError: as for :func:`check_output`.
        OSError: the file cannot be written.
    """
    place = check_output(path, force=force)
    text = with_provenance(config, lines)
    with atomic_write(place) as file:
        file.write(text.encode())
    return place


def _comment(line: str) -> list[str]:
    """The lines of a comment; those after the first are indented."""
    words = " ".join(clean(line).split())
    wrapped = textwrap.wrap(
        words, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return wrapped or ["#"]

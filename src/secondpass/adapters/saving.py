"""What an adapter was constructed with: kept apart from the caller's, and as plain values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from secondpass.reranker import Reranker
from secondpass.settings import registry
from secondpass.settings.environment import by_name
from secondpass.settings.keys import check_written


def detached(value: Any) -> Any:
    """An argument whose mappings and lists the caller cannot change; objects are the same."""
    if isinstance(value, Mapping):
        return {key: detached(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(detached, value))
    return value


def saved(value: Any, name: str) -> Any:
    """An argument as plain values, of which the component can be constructed again.

    A preset and a file are saved by name, a mapping as it was passed, with its objects by their
    registered names, and a Reranker as its configuration.

    Args:
        value: a ``reranker`` argument, or an ordering.
        name: of the parameter.

    Raises:
        NotSerializableError: it holds a key, or an object without a registered name.
    """
    if isinstance(value, Reranker):
        return value.to_config()
    if isinstance(value, PathLike):
        path = fspath(value)
        # A name alone would be taken for that of a preset.
        return os.path.join(os.curdir, path) if Path(path).name == path else path
    if not isinstance(value, Mapping):
        return _plain(value, (name,))
    check_written(value)  # before objects in it, for the places in the error
    written = {key: _plain(item, (key,)) for key, item in value.items()}
    check_written(written)
    return written


def _plain(value: Any, path: tuple[Any, ...]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, PathLike):
        return fspath(value)
    return by_name(registry.dump_part(value, ".".join(map(str, path))))

"""The folder of a job: on this machine, or in a store that pyarrow opens by its URI.

Credentials come from the environment of the process that opens a file, never from a URI, which is
part of messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from secondpass import InputError
from secondpass.settings.keys import may_name_key

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:([^/?#]*)@)?")
_SIGNATURES = frozenset({"sig"})
"""Names of query parameters with the signature of a URI."""

_ATOMIC_STORES = frozenset({"s3", "gcs", "abfs"})
"""File systems in which a file appears only when it is complete."""


def is_uri(name: str) -> bool:
    return _URI.match(name) is not None


def located(name: str) -> str:
    """A name that is valid in every process: an absolute path, or the unchanged URI."""
    uri = _URI.match(name)
    if uri is None:
        return os.path.abspath(name)
    plain, _, query = name.partition("?")
    if uri[1] is not None:
        problem = "must not hold a user name or a password; set them in the workers' environment"
        raise InputError(f"{plain.replace(f'{uri[1]}@', '***@', 1)}: {problem}")
    for setting in re.split("[&;]", query):
        key = setting.partition("=")[0]
        if may_name_key(key) or key.lower() in _SIGNATURES:
            problem = f"must not hold a key, as {key!r} may be; set it in the workers' environment"
            raise InputError(f"{plain}: {problem}")
    return name


def is_within(name: str, folder: str) -> bool:
    """Whether a file or folder is this folder or within it; both names are from `located`."""
    name, folder = (f"{one.partition('?')[0].rstrip('/')}/" for one in (name, folder))
    return name.startswith(folder)


def write_whole(folder: str, name: str, data: bytes) -> None:
    """Write a file that has its name only when it is complete, or replace one.

    Object stores show a file when the upload is complete. Elsewhere it is renamed at the end.
    """
    with opened(folder) as (system, path):
        is_atomic = system.type_name in _ATOMIC_STORES
        written = name if is_atomic else f".{name}.{os.urandom(8).hex()}"
        with system.open_output_stream(f"{path}/{written}") as stream:
            stream.write(data)
        if not is_atomic:
            system.move(f"{path}/{written}", f"{path}/{name}")


def read_file(folder: str, name: str) -> bytes | None:
    """The content of a file of a folder; None if there is none."""
    if name not in files_in(folder):
        return None
    with opened(folder) as (system, path), system.open_input_stream(f"{path}/{name}") as stream:
        return bytes(stream.readall())


def make_folder(folder: str) -> None:
    with opened(folder) as (system, path):
        system.create_dir(path, recursive=True)


def files_in(folder: str) -> list[str]:
    """The names of the files in a folder, sorted."""
    from pyarrow.fs import FileSelector

    with opened(folder) as (system, path):
        found = system.get_file_info(FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in found if info.is_file)


@contextmanager
def opened(name: str) -> Iterator[tuple[Any, str]]:
    """The file system of a path or URI, and the path in it; errors name the URI."""
    with naming(name):
        system, path = _resolved(name)
        yield system, path.rstrip("/")


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name a path or URI in errors of file systems, of which the first line says enough."""
    try:
        yield
    except InputError:
        raise
    except (ImportError, OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), "")[:200] or type(error).__name__
        raise InputError(f"{name.partition('?')[0]}: {reason}") from None


@lru_cache(maxsize=64)
def _resolved(name: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem, LocalFileSystem

    return FileSystem.from_uri(name) if is_uri(name) else (LocalFileSystem(), name)

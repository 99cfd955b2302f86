"""Files by path or URI: on this machine, or in any store of pyarrow and fsspec.

Credentials come from the environment of the process that opens a file, never from a URI, which is
written into the job's folder and into messages.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import Any, BinaryIO, Literal, TypeVar, cast

from secondpass import InputError
from secondpass.concurrency.workers import in_threads
from secondpass.formats.files import flush_file, flush_folder
from secondpass.settings.keys import may_name_key

_T = TypeVar("_T")
_R = TypeVar("_R")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)@")
_TEMPORARY = re.compile(r"\.secondpass-job-[0-9a-f]+")
"""Name of an incomplete file."""

_SIGNATURES = frozenset({"sig"})
"""Names of query parameters with the signature of a URI."""

_CONCURRENCY = 32
"""Maximum number of concurrent requests to an object store."""

_ATOMIC_STORES = frozenset({"s3", "gcs", "abfs"})
"""File systems in which a file appears only when it is complete."""


def is_temporary(name: str) -> bool:
    return _TEMPORARY.fullmatch(name) is not None


def _temporary_name() -> str:
    return f".secondpass-job-{os.urandom(8).hex()}"


def is_uri(name: str) -> bool:
    return _URI.match(name) is not None


def located(name: str) -> str:
    """A name that is valid in every process: an absolute path, or the unchanged URI."""
    if not is_uri(name):
        return os.path.abspath(name)
    if _AUTHORITY.match(name):
        masked = _AUTHORITY.sub(lambda match: match[0].replace(match[1], "***"), name)
        problem = "must not hold a user name or a password; set them in the workers' environment"
        raise InputError(f"{masked.partition('?')[0]}: {problem}")
    for setting in re.split("[&;]", name.partition("?")[2]):
        key = setting.partition("=")[0]
        if may_name_key(key) or key.lower() in _SIGNATURES:
            problem = f"must not hold a key, as {key!r} may be; set it in the workers' environment"
            raise InputError(f"{name.partition('?')[0]}: {problem}")
    return name


def joined(folder: str, child: str) -> str:
    if not is_uri(folder):
        return os.path.join(folder, child)
    base, mark, query = folder.partition("?")
    return f"{base.rstrip('/')}/{child}{mark}{query}"


def is_within(name: str, folder: str) -> bool:
    """Whether a file or folder is within a folder; both names are from :func:`located`."""
    return name.partition("?")[0].rstrip("/").startswith(folder.partition("?")[0].rstrip("/") + "/")


def kind_of(name: str) -> Literal["file", "folder"] | None:
    """Whether a path or URI is a file or a folder; None if it does not exist.

    Pipes and devices count as files.
    """
    if not is_uri(name):
        path = Path(name)
        return "folder" if path.is_dir() else "file" if path.exists() else None
    from pyarrow.fs import FileType

    with _store(name) as (system, path_):
        kind = system.get_file_info(path_).type
    return {FileType.File: "file", FileType.Directory: "folder"}.get(kind)  # type: ignore[return-value]


def stamp(name: str) -> tuple[int, int | None]:
    """Size and modification time (ns) of a file; the time is None if a store has none."""
    if not is_uri(name):
        status = os.stat(name)
        return status.st_size, status.st_mtime_ns
    with _store(name) as (system, path):
        info = system.get_file_info(path)
        return info.size, info.mtime_ns


def files_in(folder: str) -> dict[str, int]:
    """The files below a folder, by their names relative to it, with their sizes, in order."""
    if not is_uri(folder):
        root = Path(folder)
        paths = (path for path in root.rglob("*") if path.is_file())
        sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in paths}
        return dict(sorted(sizes.items()))
    from pyarrow.fs import FileSelector

    with _store(folder) as (system, base):
        selector = FileSelector(base, allow_not_found=True, recursive=True)
        sizes = {
            PurePosixPath(info.path).relative_to(PurePosixPath(base)).as_posix(): info.size
            for info in system.get_file_info(selector)
            if info.is_file
        }
    return dict(sorted(sizes.items()))


def open_file(name: str) -> BinaryIO:
    if not is_uri(name):
        return open(name, "rb")
    with _store(name) as (system, path):
        return cast("BinaryIO", io.BufferedReader(system.open_input_file(path), 1 << 20))


class NewFile:
    """A file in a folder that gets its name only when it is complete."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._temporary: Path | None = None
        if is_uri(folder):
            # A local file, as a stream to an object store cannot be abandoned.
            self._file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - see __exit__
        else:
            self._temporary = Path(folder) / _temporary_name()
            self._file = open(self._temporary, "xb")  # noqa: SIM115 - see __exit__

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(OSError):  # of what is not needed any more, such as on a full disk
            self._file.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        with _naming(self._folder):
            self._file.write(data)

    def publish(self, name: str) -> None:
        """Move the file to its name in the folder; an existing file is replaced."""
        if self._temporary is not None:
            with _naming(self._folder):
                flush_file(self._file)
            os.replace(self._temporary, Path(self._folder) / name)
            flush_folder(Path(self._folder))
            return
        with _naming(self._folder):
            self._file.seek(0)
        target = joined(self._folder, name)
        with _store(target) as (system, path):
            is_atomic = system.type_name in _ATOMIC_STORES
            written = path if is_atomic else f"{path.removesuffix(name)}{_temporary_name()}"
            with system.open_output_stream(written) as stream:
                copyfileobj(self._file, stream, 1 << 20)
            if not is_atomic:
                system.move(written, path)


def write_whole(folder: str, name: str, data: bytes) -> None:
    """Write a file atomically."""
    with NewFile(folder) as new:
        new.write(data)
        new.publish(name)


def delete(name: str) -> None:
    """Delete a file, if it exists."""
    if not is_uri(name):
        Path(name).unlink(missing_ok=True)
        return
    with _store(name) as (system, path):
        if kind_of(name) == "file":
            system.delete_file(path)


def in_parallel(function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Map a function over items in threads, as each request to an object store is slow."""
    return [*in_threads(function, items, _CONCURRENCY)]


def make_folder(name: str) -> None:
    if not is_uri(name):
        Path(name).mkdir(parents=True, exist_ok=True)
        return
    with _store(name) as (system, path):
        system.create_dir(path, recursive=True)


@contextmanager
def _naming(folder: str) -> Iterator[None]:
    """Name the folder in errors of writing, which have no path."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, folder.partition("?")[0]) from None


@contextmanager
def _store(name: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URI, and the path in it; errors name the URI."""
    try:
        yield _resolved(name)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, InputError):
            raise
        # Only the first line: messages of AWS and Hadoop have many.
        reason = next(iter(str(error).splitlines()), "")[:200] or type(error).__name__
        raise InputError(f"{name.partition('?')[0]}: {reason}") from None


@lru_cache(maxsize=64)
def _resolved(name: str) -> tuple[Any, str]:
    import pyarrow
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    try:
        system_and_path: tuple[Any, str] = FileSystem.from_uri(name)
        return system_and_path
    except pyarrow.ArrowInvalid:  # a scheme that pyarrow does not know
        from fsspec.core import url_to_fs

        system, path = url_to_fs(name)
        return PyFileSystem(FSSpecHandler(system)), path

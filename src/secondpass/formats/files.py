"""Atomic writes that survive a crash, locks between processes, and compressed files.

Compressed files are recognized by the suffix ``.gz``, not by their content.
"""

from __future__ import annotations

import errno
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, cast
from uuid import uuid4

from secondpass.errors import InputError
from secondpass.formats.errors import FormatError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
"""Errors of a disk that cannot hold a file."""
_NOT_SUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOSYS, errno.EACCES, errno.EPERM}
"""Errors of platforms and file systems that cannot flush a folder."""


@contextmanager
def naming(path: str | PathLike[str], *hidden: Path) -> Iterator[None]:
    """Have an OSError that names no file, or a ``hidden`` one, name this file.

    An error of a full disk names none: Python raises it when it writes, not when it opens the file.
    Other errors may come from what is written, such as a generator that reads from a network.
    """
    try:
        yield
    except OSError as error:
        is_full = error.filename is None and error.errno in _FULL
        if is_full or error.filename in {*map(fspath, hidden)}:
            raise OSError(error.errno, error.strerror, fspath(path)) from error
        raise


@contextmanager
def atomic_write(path: Path, temporary: Path | None = None) -> Iterator[BinaryIO]:
    """Write a file that replaces ``path`` when the block ends without an exception.

    A reader, also one after a crash, finds the old content or the new one. The content is flushed
    to disk before the rename, or a crash could leave an empty file; the folder is flushed after it,
    or a crash could bring the old file back.

    Args:
        path: the file; it may not exist yet.
        temporary: where to write until then, in the same folder; an existing file is overwritten.
            None: a new unique name.

    Raises:
        OSError: the file cannot be written, flushed or renamed.
    """
    temporary = temporary or path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with naming(path, temporary):
            with open(temporary, "wb") as file:
                yield file
                flush_file(file)
            os.replace(temporary, path)
            flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def flush_file(file: BinaryIO) -> None:
    """Flush a file to disk."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, where the platform supports it."""
    if sys.platform == "win32":  # a folder cannot be opened there
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)


def open_locked(path: Path, mode: Literal["xb", "r+b", "a+b"]) -> BinaryIO:
    """Open a file for writing; raises an InputError if another process is writing to it."""
    file: BinaryIO = open(path, mode)  # noqa: SIM115 - the caller closes it
    if sys.platform != "win32":  # a locked file could not be read there
        try:
            lock(file)
        except BlockingIOError:
            is_free = False
        except OSError:
            is_free = True  # the file system has no locks
        else:
            is_free = _is_file_at(file, path)
        if not is_free:
            file.close()
            raise InputError(f"{path}: another process is writing to it")
    return file


def _is_file_at(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one at a path: its writer may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def lock(file: IO[Any]) -> None:
    """Lock an open file until it is closed, without waiting. The lock of a killed process is free.

    On Windows other processes cannot read the locked byte. Raises a BlockingIOError if another
    process holds the lock, another OSError if the file system has none.
    """
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(error.errno, error.strerror) from None
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_gzip(path: str | PathLike[str]) -> bool:
    """Whether the name of a file says that it is compressed."""
    return fspath(path).endswith(".gz")


def uncompressed_name(path: str | PathLike[str]) -> Path:
    """The path without a final ``.gz``; its suffix is the format of the content."""
    return Path(fspath(path).removesuffix(".gz"))


def find_file(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these files in a folder, uncompressed or with ``.gz`` added."""
    paths = (folder / f"{name}{suffix}" for name in names for suffix in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def open_input(path: str | PathLike[str]) -> BinaryIO:
    """Open a file to read its lines, which are decompressed if its name ends in ``.gz``.

    Reading raises a FormatError if such a file is no gzip file, or ends too early.
    """
    return cast("BinaryIO", _GzipLines(fspath(path))) if is_gzip(path) else open(path, "rb")


def compressed(data: bytes) -> bytes:
    """A complete part of a gzip file, which may follow others; equal for equal data."""
    return gzip.compress(data, mtime=0)


def compress_into(file: BinaryIO, lines: Iterable[bytes]) -> None:
    """Write a complete gzip file, without its name and the time; equal for equal lines."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        packed.writelines(lines)


class _GzipLines(gzip.GzipFile):
    """A gzip file whose errors name it. Iteration reads by ``readline``."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "rb")
        self._path = path

    def readline(self, size: int | None = -1) -> bytes:
        return self._checked(super().readline, size)

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read, size)

    def _checked(self, read: Callable[[int | None], bytes], size: int | None) -> bytes:
        try:
            data = read(size)
            if not data and self._is_without_content():
                raise EOFError
        except EOFError:
            raise FormatError(self._path, None, "is a gzip file that ends too early") from None
        except (gzip.BadGzipFile, zlib.error):
            raise FormatError(self._path, None, "is not a gzip file, or damaged") from None
        return data

    def _is_without_content(self) -> bool:
        """Whether the file is empty: Python reads it as no lines."""
        status = os.fstat(self.fileno())
        return stat.S_ISREG(status.st_mode) and not status.st_size

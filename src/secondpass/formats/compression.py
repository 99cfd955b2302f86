"""Compressed files, which are recognized by the suffix ``.gz``, not by their content."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import BinaryIO, cast

from secondpass.formats.errors import FormatError


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

    Raises:
        OSError: it cannot be opened. Reading raises a FormatError if it is not a gzip file, or ends
            too early.
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
        try:
            line = super().readline(size)
            if not line:
                self._check_not_empty()
            return line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self._error(error) from None

    def read(self, size: int | None = -1) -> bytes:
        try:
            data = super().read(size)
            if not data:
                self._check_not_empty()
            return data
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self._error(error) from None

    def _check_not_empty(self) -> None:
        """Check that the file has content; Python reads one without as no lines.

        Raises:
            EOFError: it is empty.
        """
        status = os.fstat(self.fileno())
        if stat.S_ISREG(status.st_mode) and not status.st_size:
            raise EOFError

    def _error(self, error: Exception) -> FormatError:
        is_cut = isinstance(error, EOFError)
        problem = (
            "is a gzip file that ends too early" if is_cut else "is not a gzip file, or damaged"
        )
        return FormatError(self._path, None, problem)

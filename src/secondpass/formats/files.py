"""Replacing a file so that a reader, or whoever comes after a crash, finds the old or the new one.

The new content is written to a draft beside the file and flushed to disk; then the draft takes the
file's name, and the folder is flushed, too. Without the first flush a crash can leave an empty file
under the new name, without the second the old file.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

_NOT_SUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOSYS, errno.EACCES, errno.EPERM}
"""What platforms and file systems answer that cannot flush a folder."""


@contextmanager
def replacing(target: Path, draft: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which replaces ``target`` at the end; after an exception, it does not.

    Args:
        target: the file, which need not be there yet.
        draft: where to write until then, in the same folder; None takes a new name. One that is
            there is written over.

    Raises:
        OSError: it cannot be written, flushed or renamed.
    """
    draft = draft or target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        with open(draft, "wb") as file:
            yield file
            flush_file(file)
        os.replace(draft, target)
        flush_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def flush_file(file: BinaryIO) -> None:
    """Wait until what was written to a file is on disk.

    Raises:
        OSError: it cannot be written there.
    """
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, where the platform can do that.

    Raises:
        OSError: the disk has an error.
    """
    if sys.platform == "win32":  # a folder cannot be opened there
        return
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return
        raise
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(number)

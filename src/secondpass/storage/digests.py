"""Digests of texts, settings and files, from which the keys of stored entries are made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from secondpass.questions import written_spans
from secondpass.storage.lru import LRU

DIGEST_SIZE = 16
"""Bytes of a digest. Two texts have the same one with a probability of 1e-38."""


def text_digest(text: str) -> bytes:
    """A digest of 16 bytes of any text, lone surrogates included."""
    data = text.encode("utf-8", "surrogatepass")
    if written := written_spans(text):
        data = b"%b\xff%b" % (data, repr(written).encode())
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE).digest()


def namespace(settings: Mapping[str, Any]) -> bytes:
    """A digest of 16 bytes of everything but the texts that a score depends on, as JSON values."""
    return text_digest(json.dumps(settings, sort_keys=True))


def file_digest(path: str | os.PathLike[str]) -> str:
    """The digest of a file's bytes as 32 hexadecimal digits.

    It is computed again only if path, size, time of the last change or inode differ.
    """
    resolved = os.path.realpath(path)
    with open(resolved, "rb") as file:
        status = os.fstat(file.fileno())
        key = (resolved, status.st_size, status.st_mtime_ns, status.st_ino)
        [known] = _file_digests.get_many([key])
        if known is None:
            new_digest = partial(hashlib.blake2b, digest_size=DIGEST_SIZE)
            known = hashlib.file_digest(file, new_digest).hexdigest()
            _file_digests.put_many([(key, known)])
    return known


_file_digests: LRU[tuple[str, int, int, int], str] = LRU(64)

"""Labels: the names of candidates in prompts.

Opaque labels do not show a candidate's place. They are derived from the query, all passages of the
question and a secret of the process. So the author of a passage cannot predict them, even from the
query and all other passages, and no passage can name itself or another one.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Sequence
from typing import Literal, TypeAlias

from secondpass.prompts.fencing import as_attribute
from secondpass.rendering import well_formed
from secondpass.types import Candidate

LabelKind: TypeAlias = Literal["opaque", "id", "index0", "index1"]

_LETTERS = "bcdfghjkmnpqrstvwxyz"  # no vowels, so no words; no l, which looks like 1
_DIGITS = "23456789"
_MAX_ID_LENGTH = 200
_MAX_ESCAPED_LENGTH = 280
"""Characters of an escaped id, so that replies are read up to a label with its number."""

# Drawn at import, so that forked children share it.
_secret = os.urandom(32)


def replace_secret(secret: bytes) -> bytes:
    """Set the secret of opaque labels, and return the previous one.

    For tests and experiments that need the same labels in every process.

    Args:
        secret: 64 bytes at most.
    """
    global _secret
    previous, _secret = _secret, secret
    return previous


def label_all(
    kind: LabelKind, query: str, texts: Sequence[str], candidates: Sequence[Candidate]
) -> list[str]:
    """A label for each text. All labels differ.

    Args:
        kind: ``opaque``; ``id`` for the candidates' ids (made unique by a number, and cut if long);
            ``index0`` and ``index1`` for their places.
        query: as it is in the prompt.
        texts: as they are in the prompt.
        candidates: aligned with ``texts``.
    """
    if kind == "index0":
        return [str(place) for place in range(len(texts))]
    if kind == "index1":
        return [str(place) for place in range(1, len(texts) + 1)]
    if kind == "id":
        return _ids(candidates)
    return _opaque(query, texts)


def _draw(query: str, texts: Sequence[str]) -> random.Random:
    content = "\0".join([query, *texts]).encode("utf-8", "replace")
    return random.Random(hashlib.blake2b(content, key=_secret).digest())


def opaque_length(count: int) -> int:
    """The length of each of ``count`` opaque labels."""
    return len(_alphabets(count))


def _alphabets(count: int) -> list[str]:
    """The characters at each place of ``count`` opaque labels: four times as many are possible."""
    alphabets = [_LETTERS, _DIGITS, _LETTERS]
    while math.prod(map(len, alphabets)) < 4 * count:
        alphabets.append(_DIGITS)
    return alphabets


def _opaque(query: str, texts: Sequence[str]) -> list[str]:
    alphabets = _alphabets(len(texts))
    size = math.prod(map(len, alphabets))
    labels = []
    for number in _draw(query, texts).sample(range(size), len(texts)):
        label = ""
        for alphabet in alphabets:
            number, letter = divmod(number, len(alphabet))  # noqa: PLW2901
            label += alphabet[letter]
        labels.append(label)
    return labels


def _ids(candidates: Sequence[Candidate]) -> list[str]:
    labels: list[str] = []
    taken: set[str] = set()
    for number, candidate in enumerate(candidates, start=1):
        id_ = _id_text(candidate.id)
        label = id_ or f"#{number}"
        while label.casefold() in taken:
            label = f"{id_}#{number}"
            number += 1  # noqa: PLW2901
        taken.add(label.casefold())
        labels.append(label)
    return labels


def _id_text(id_: object) -> str:
    try:
        if id_ is None:
            return ""
        return as_attribute(well_formed(str(id_)[:_MAX_ID_LENGTH]))[:_MAX_ESCAPED_LENGTH].strip()
    except Exception:  # __str__ of user code may raise anything
        return ""

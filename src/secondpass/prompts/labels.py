"""Names under which candidates are shown to a model.

Opaque labels say nothing of a candidate's place. They follow from the query, all passages of the
question and a secret of the process: who writes a passage cannot know them, even if they know the
query and every other passage, so no passage can name itself or a rival.
"""

from __future__ import annotations

import hashlib
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
_LONGEST_ID = 200  # characters

# Drawn at import, so that forked children share it. Questions differ between processes in their
# labels only.
_secret = os.urandom(32)


def replace_secret(secret: bytes) -> bytes:
    """Set the secret that opaque labels depend on, and return the one before.

    For tests and experiments that need the same labels in every process.

    Args:
        secret: 64 bytes at most.
    """
    global _secret
    before, _secret = _secret, secret
    return before


def label_all(
    kind: LabelKind, query: str, texts: Sequence[str], candidates: Sequence[Candidate]
) -> list[str]:
    """A label for each text, all different.

    Args:
        kind: ``opaque``; ``id`` for the candidates' own (a number is added to one that is absent or
            there twice, and long ones are cut); ``index0`` and ``index1`` for their places.
        query: as shown.
        texts: as shown.
        candidates: aligned with ``texts``.
    """
    if kind == "index0":
        return [str(at) for at in range(len(texts))]
    if kind == "index1":
        return [str(at) for at in range(1, len(texts) + 1)]
    if kind == "id":
        return _ids(candidates)
    return _opaque(query, texts)


def _opaque(query: str, texts: Sequence[str]) -> list[str]:
    alphabets, room = [_LETTERS, _DIGITS, _LETTERS], len(_LETTERS) ** 2 * len(_DIGITS)
    while room < 4 * len(texts):
        alphabets.append(_DIGITS)
        room *= len(_DIGITS)
    shown = "\0".join([query, *texts]).encode("utf-8", "replace")
    seed = hashlib.blake2b(shown, key=_secret).digest()
    chosen = random.Random(seed).sample(range(room), len(texts))
    labels = []
    for number in chosen:
        label, rest = "", number
        for alphabet in alphabets:
            rest, at = divmod(rest, len(alphabet))
            label += alphabet[at]
        labels.append(label)
    return labels


def _ids(candidates: Sequence[Candidate]) -> list[str]:
    labels: list[str] = []
    taken: set[str] = set()
    for number, candidate in enumerate(candidates, start=1):
        own = _shown(candidate.id)
        label = own or f"#{number}"
        while label.casefold() in taken:
            label = f"{own}#{number}"
            number += 1  # noqa: PLW2901 - until it is free
        taken.add(label.casefold())
        labels.append(label)
    return labels


def _shown(id_: object) -> str:
    try:
        return "" if id_ is None else as_attribute(well_formed(str(id_)[:_LONGEST_ID]))
    except Exception:  # a foreign __str__ may raise anything
        return ""

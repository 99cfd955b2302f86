"""Labels: the names of candidates in prompts, and how they are found in replies.

Opaque labels do not show a candidate's place. They are derived from the query, all passages of the
question and a secret of the process. So the author of a passage cannot predict them, even from the
query and all other passages, and no passage can name itself or another one.
"""

from __future__ import annotations

import hashlib
import html
import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from secondpass.errors import ReplyError, reraise_exit
from secondpass.prompts.fencing import as_attribute
from secondpass.ranking.rendering import well_formed
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
    """Set the secret of opaque labels, 64 bytes at most, and return the previous one.

    For tests and experiments that need the same labels in every process.
    """
    global _secret
    previous, _secret = _secret, secret
    return previous


def label_all(
    kind: LabelKind, query: str, texts: Sequence[str], candidates: Sequence[Candidate]
) -> list[str]:
    """A label for each text. All labels differ.

    Ids are made unique by a number, and cut if long; ``index0`` and ``index1`` are places. Query
    and texts are as in the prompt.
    """
    if kind == "id":
        return _ids(candidates)
    if kind == "opaque":
        return _opaque(query, texts)
    first = 0 if kind == "index0" else 1
    return [str(place) for place in range(first, first + len(texts))]


def _opaque(query: str, texts: Sequence[str]) -> list[str]:
    content = "\0".join([query, *texts]).encode("utf-8", "replace")
    draw = random.Random(hashlib.blake2b(content, key=_secret).digest())
    # The characters at each place of a label: four times as many labels are possible.
    alphabets = [_LETTERS, _DIGITS, _LETTERS]
    while (size := math.prod(map(len, alphabets))) < 4 * len(texts):
        alphabets.append(_DIGITS)
    labels = []
    for number in draw.sample(range(size), len(texts)):
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
    except BaseException as error:  # __str__ of user code may raise anything
        reraise_exit(error)
        return ""


# ---------------------------------------------------------------------- labels in replies

# Around a label. Any number of them: models also drop one of a pair.
_BRACKETS = " \t\r\n[](){}<>\"'`\u201c\u201d\u2018\u2019"
# "doc k4t", "id: k4t", "passage_3", "Document 3". Not "rank" or "no.", whose number may be a rank.
_PREFIX = re.compile(
    r"(?:document|doc|passage|candidate|chunk|node|item|text|label|id|index)"
    r"(?:\s*[:=#]\s*|[_.\-]|\s+|(?=\[)|(?=\d))",
    re.I,
)
_INTEGER = re.compile(r"[+-]?\d{1,9}(?:\.0*)?", re.ASCII)
_MAX_LENGTH = 300  # characters of a label with its prefix. Labels themselves have fewer.


class Labels:
    """The labels of a question, as shown in the prompt: escaped, and unique regardless of case."""

    def __init__(self, names: Sequence[str], first: int | None) -> None:
        self.names = names
        self.first = first  # index, if labels are indices
        self.numeric = all(name.isdecimal() for name in names)
        self._places = {folded(name): place for place, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.names)

    def place(self, value: object) -> int | None:
        """The place of a label, from 0; None if the value is no label of the question.

        A label may be as in the prompt, or unescaped.
        """
        if self.first is not None:
            number = self.number(value)
            return None if number is None or number not in self._range else number - self.first
        if isinstance(value, float) and value.is_integer() and abs(value) <= 1e9:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or len(value) > _MAX_LENGTH:
            return None
        # The whole value first: an id may contain brackets or a prefix.
        bare = value.strip(_BRACKETS)
        names = [value, bare]
        inner = _without_prefix(bare)
        # "passage 7" may mean the id 7 or the seventh passage.
        if inner is not None and not inner.isdecimal():
            names.append(inner)
        for name in names:
            place = self._places.get(folded(name))
            if place is None and self._unescaped:
                place = self._unescaped.get(_unescaped(name))
            if place is not None:
                return place
        return None

    @cached_property
    def _unescaped(self) -> dict[str, int]:
        """The places of unescaped labels that differ from all others; none without escapes."""
        if not any("&" in name for name in self.names):
            return {}
        keys = [_unescaped(name) for name in self.names]
        counts = Counter(keys)
        return {key: place for place, key in enumerate(keys) if counts[key] == 1}

    def number(self, value: object) -> int | None:
        """The integer that a value states, for labels that are indices; None if it states none."""
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return value if abs(value) <= 10**9 else None
        if isinstance(value, float):
            return int(value) if value.is_integer() and abs(value) <= 1e9 else None
        if not isinstance(value, str) or len(value) > _MAX_LENGTH:
            return None
        bare = value.strip(_BRACKETS)
        inner = _without_prefix(bare) or bare
        return int(float(inner)) if _INTEGER.fullmatch(inner) else None

    def is_beyond(self, value: object) -> bool:
        """Whether an index is one before the first or one after the last."""
        number = None if self.first is None else self.number(value)
        return number in {self._range.start - 1, self._range.stop}

    @property
    def _range(self) -> range:
        first = self.first or 0
        return range(first, first + len(self))

    def check_base(self, values: Iterable[object]) -> None:
        """Raise ReplyError if indices count from another number than the labels.

        They do if one is just beyond one end, and the index at the other end is missing.
        """
        if self.first is None:
            return
        numbers = {self.number(value) for value in values}
        first, last = self._range[0], self._range[-1]
        shifted_up = last + 1 in numbers and first not in numbers
        shifted_down = first - 1 in numbers and last not in numbers
        if shifted_up or shifted_down:
            raise ReplyError(f"its numbers do not count from {self.first}")


def folded(label: str) -> str:
    """Normalize the case and the white space of a label, for comparison."""
    return re.sub(r"\s+", " ", label).strip().casefold()


def _unescaped(label: str) -> str:
    """A label without the escapes of prompts, or those that a model has added."""
    return folded(html.unescape(label))


def _without_prefix(text: str) -> str | None:
    """A label without its prefix; None if it has none."""
    match = _PREFIX.match(text)
    return None if match is None else text[match.end() :].strip(_BRACKETS)

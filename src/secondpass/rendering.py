"""What of a candidate is shown to a method.

Scorers and prompts read the same rendering, so that a title or a metadata field counts in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.candidates import field_value
from secondpass.settings import configurable
from secondpass.types import Candidate

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

_MAX_ITEMS = 10_000
"""Of lists and mappings that are written out for one field."""

_MAX_DEPTH = 8
"""Of lists and mappings inside each other."""


class _Field:
    """One of the configured fields: names to try in turn, and what is done with the value."""

    def __init__(self, configured: str) -> None:
        self.configured = configured
        self.optional = len(configured) > 1 and configured.endswith("?")
        rest = configured.removesuffix("?") if self.optional else configured
        *names, last = rest.split("|")
        self.count = bool(names) and last == "count"
        self.names = names if self.count else [*names, last]

    def value(self, candidate: Candidate) -> Any:
        """What the first name that there is stands for; None where there is none."""
        # A metadata key may look like a field with alternatives.
        whole = [self.configured] if self.configured != self.names[0] else []
        empty = None
        for name in (*whole, *self.names):
            value = field_value(candidate, name)
            if value is None:
                continue
            if value.__class__ is not str or value:
                return _count(value) if self.count and name != self.configured else value
            empty = value
        return empty


@configurable
@dataclass(frozen=True)
class Rendering:
    """Turns a candidate into the text that is judged.

    Attributes:
        fields: what is shown, in order: ``text``, ``id``, ``score``, or a metadata key. A dot goes
            into nested mappings (``source.title``) where no key has the whole name. Of
            ``path|file_path|id`` the first that a candidate has is shown, under the first name;
            ``subtasks|count`` shows how many items a list has. A ``?`` at the end marks a field
            that every candidate may lack (``tags?``).
        separator: stands between fields.
        labels: write each field as ``name: value``; further lines of a value are indented, so that
            none can pass for another field. A text that another field also holds is not repeated.
        prefix: stands before each rendered candidate; some models want ``passage: ``.
        suffix: stands behind each.
        query_prefix: stands before the query; some models want ``query: ``.
        query_suffix: stands behind it.
        max_characters: longer renderings, the prefix included, are cut for judging; what comes out
            is whole.

    A field that is absent, None or an empty string is left out. Any other value is shown, 0 and
    False too; lists and mappings are written out as ``a, b`` and ``name: value, name: value``. A
    field that no candidate has, unless it is marked with ``?``, is an issue of the report.
    """

    fields: Annotated[Sequence[str], MinLen(1)] = ("text",)
    separator: str = "\n"
    labels: bool = False
    prefix: str = ""
    suffix: str = ""
    query_prefix: str = ""
    query_suffix: str = ""
    max_characters: Annotated[int, Ge(1)] | None = None

    @property
    def needs_text(self) -> bool:
        """Whether a candidate without a text is likely to be a mistake."""
        return tuple(self.fields) == ("text",)

    @cached_property
    def _fields(self) -> tuple[_Field, ...]:
        return tuple(map(_Field, self.fields))

    def missing(self, candidates: Sequence[Candidate]) -> list[str]:
        """The fields that none of the candidates has, as configured; optional ones are left out."""
        if not candidates or self.needs_text:
            return []
        return [
            field.configured
            for field in self._fields
            if not field.optional
            and all(field.value(candidate) is None for candidate in candidates)
        ]

    def query(self, query: str) -> str:
        """The query as a method reads it."""
        return well_formed(self.query_prefix + query + self.query_suffix)

    def candidates(self, candidates: Sequence[Candidate]) -> list[str | None]:
        """The text of each candidate as a method reads it; None where there is nothing to show."""
        around = self.labels or self.prefix or self.suffix or self.max_characters is not None
        if self.needs_text and not around:
            return [
                well_formed(candidate.text) if isinstance(candidate.text, str) else None
                for candidate in candidates
            ]
        return [self._one(candidate) for candidate in candidates]

    def _one(self, candidate: Candidate) -> str | None:
        shown = [(field.names[0], as_text(field.value(candidate))) for field in self._fields]
        if all(value is None for _, value in shown):
            return None
        if self.labels:
            shown = _without_repeated_text(shown)
        parts = [
            f"{name}: {_indented(value)}" if self.labels else value
            for name, value in shown
            if value
        ]
        text = self.prefix + self.separator.join(parts)
        return well_formed(text[: self.max_characters] + self.suffix)


def well_formed(text: str) -> str:
    """``text`` with lone surrogates replaced: tokenizers and JSON encoders refuse them."""
    if type(text) is not str:
        text = str.__str__(text)  # the methods of a subclass may raise anything
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _count(value: Any) -> Any:
    """How many items a list or mapping has; a number as it is, for it has been counted already."""
    try:
        return (
            len(value) if isinstance(value, Sized) and not isinstance(value, str | bytes) else value
        )
    except Exception:  # a foreign __len__ may raise anything
        return None


def _without_repeated_text(shown: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """The fields without the text, where another field holds the same.

    Documents of frameworks need a text, which is often one of their fields as well.
    """
    others = {value.strip() for name, value in shown if name != "text" and value is not None}
    return [
        (name, value)
        for name, value in shown
        if name != "text" or value is None or value.strip() not in others
    ]


def _indented(value: str) -> str:
    return "\n  ".join(value.splitlines())


def as_text(value: Any) -> str | None:
    """A value as people write it; None where there is nothing to show.

    A list is written ``a, b``, one of mappings or lists ``a: 1, b: 2; a: 3, b: 4``, a mapping
    ``name: value, name: value``. What is nested deeper stands in parentheses.
    """
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # the methods of a subclass may raise anything
    try:
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return _written_out(value, [_MAX_ITEMS])
        return str(value)
    except Exception:  # a foreign __str__ may raise anything; such a value has nothing to show
        return None


def _written_out(value: Any, left: list[int], depth: int = 0) -> str:
    """A list or a mapping as text; ``left`` is how many items may still be written."""
    if depth > _MAX_DEPTH:
        return "…"
    parts = []
    separator = ", "
    named = isinstance(value, Mapping)
    for item in value.items() if named else value:
        left[0] -= 1
        if left[0] < 0:
            parts.append("…")
            break
        name, inner = item if named else ("", item)
        if inner is None and named:
            continue
        if not isinstance(inner, Mapping | list | tuple | set | frozenset):
            text = str(inner)
        elif named or depth:
            text = f"({_written_out(inner, left, depth + 1)})"
        else:
            text, separator = _written_out(inner, left, depth + 1), "; "
        parts.append(f"{name}: {text}" if named else text)
    # Sets have no order, and the same prompt is wanted each time.
    return separator.join(sorted(parts) if isinstance(value, set | frozenset) else parts)

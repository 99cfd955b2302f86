"""Renders candidates and queries to the texts that scorers and prompts get."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.errors import reraise_exit
from secondpass.questions import Span, joined, sliced
from secondpass.ranking.candidates import field_value
from secondpass.settings import configurable, nested
from secondpass.types import Candidate, Piece

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

_MAX_ITEMS = 10_000  # maximum number of items of lists and mappings that are rendered for one field

_MAX_DEPTH = 8  # maximum nesting of lists and mappings that is rendered


class Field:
    """A configured field: names to try in turn, and whether to count the items of the value."""

    def __init__(self, configured: str) -> None:
        self.configured = configured
        self.optional = len(configured) > 1 and configured.endswith("?")
        rest = configured.removesuffix("?") if self.optional else configured
        *names, last = rest.split("|")
        self.count = bool(names) and last == "count"
        self.names = names if self.count else [*names, last]

    def value(self, candidate: Candidate) -> Any:
        """Return the value of the first name that the candidate has; None if it has none."""
        # The configured field, with "|" or "?", may itself be a metadata key.
        literal = [self.configured] if self.configured != self.names[0] else []
        empty = None
        for name in (*literal, *self.names):
            value = field_value(candidate, name)
            if value is None:
                continue
            if value.__class__ is str and is_blank(value):
                empty = value
            elif self.count and name != self.configured:
                return _count(value)
            else:
                return value
        return empty


@configurable
@dataclass(frozen=True)
class Rendering:
    """Renders a candidate as the text that a method is shown.

    Attributes:
        fields: fields to render, in order: ``text``, ``id``, ``score``, or a metadata key. A dot
            reads nested mappings and objects (``source.title``) unless a key has the whole name.
            For ``path|file_path|id``, the first that a candidate has is rendered, under the first
            name; ``subtasks|count`` is the number of items of a list. A ``?`` at the end marks an
            optional field (``tags?``).
        separator: text between fields.
        labels: render each field as ``name: value``. Further lines of a value are indented, so that
            they cannot look like a field. A text that is also the value of another field is
            rendered once.
        prefix: text before each rendered candidate; some models need ``passage: ``.
        suffix: text after each rendered candidate.
        query_prefix: text before the query; some models need ``query: ``.
        query_suffix: text after the query.
        max_characters: maximum length of a rendering, prefix included and suffix excluded. The
            ranking returns candidates whole.
        id: the field that names a candidate in place of its id, such as ``metadata.id``: in
            prompts with ``labels: id``, and as the field ``id``. Written as those in ``fields``.
            Candidates without it keep their ids, and results have their own.

    Fields that are absent, None or a string without a visible character are skipped. Other values
    are rendered, 0 and False included; lists as ``a, b`` and mappings as ``name: value, name:
    value``. A field that no candidate has is an issue of the report, unless it is optional.
    """

    fields: Annotated[Sequence[str], MinLen(1)] = ("text",)
    separator: str = "\n"
    labels: bool = False
    prefix: str = ""
    suffix: str = ""
    query_prefix: str = ""
    query_suffix: str = ""
    max_characters: Annotated[int, Ge(1)] | None = None
    id: Annotated[str, MinLen(1)] | None = None

    _EXAMPLES = MappingProxyType({"fields": ["title", "text"]})

    @property
    def needs_text(self) -> bool:
        """Whether a candidate without a text is an error."""
        return tuple(self.fields) == ("text",)

    @cached_property
    def _fields(self) -> tuple[Field, ...]:
        return tuple(map(Field, self.fields))

    @cached_property
    def _id(self) -> Field | None:
        return None if self.id is None else Field(self.id)

    def named(self, candidate: Candidate) -> Candidate:
        """Return the candidate under the id that methods are shown."""
        name = as_text(self._id.value(candidate)) if self._id else None
        return replace(candidate, id=name) if name else candidate

    def missing(self, candidates: Sequence[Candidate]) -> list[str]:
        """Return the configured fields that no candidate has, without optional ones."""
        if not candidates:
            return []
        fields = [] if self.needs_text else [*self._fields]
        if self._id is not None:
            fields.append(self._id)
        required = [field for field in fields if not field.optional]
        return [
            field.configured
            for field in required
            if all(field.value(candidate) is None for candidate in candidates)
        ]

    def query(self, query: str) -> str:
        """Return the text of the query for a method."""
        if not (self.query_prefix or self.query_suffix):
            return well_formed(query)
        parts = [(self.query_prefix, True), (query, False), (self.query_suffix, True)]
        return joined([(well_formed(text), written) for text, written in parts])

    def candidates(self, candidates: Sequence[Candidate]) -> list[str | None]:
        """Return the text of each candidate for a method; None if there is nothing to show."""
        decorated = self.labels or self.prefix or self.suffix or self.max_characters is not None
        if self.needs_text and not decorated:
            texts = [
                well_formed(candidate.text) if isinstance(candidate.text, str) else ""
                for candidate in candidates
            ]
            return [None if is_blank(text) else text for text in texts]
        return [self._rendered(candidate) for candidate in candidates]

    def span_of_text(self, candidate: Candidate, span: Span) -> Span | None:
        """Convert a span of a rendering to one of the candidate's text; None if there is none."""
        text_range = self._text_range(candidate)
        return None if text_range is None else _within(span, text_range)

    def pieces_of_text(self, candidate: Candidate, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Convert scored parts of a rendering to those of the candidate's text."""
        text_range = self._text_range(candidate)
        if text_range is None:
            return ()
        if text_range[0] == 0 and (not pieces or pieces[-1][1] <= text_range[1]):
            return pieces
        found = [(_within((start, stop), text_range), score) for start, stop, score in pieces]
        return [(*span, score) for span, score in found if span is not None]

    def body(self, candidate: Candidate, rendered: str) -> Span:
        """Return the part of a rendering to split into windows: the text, else all fields."""
        end = max(len(self.prefix), len(rendered) - len(self.suffix))
        return self._text_range(candidate) or (len(self.prefix), end)

    def _text_range(self, candidate: Candidate) -> Span | None:
        """The span of the text, or of its beginning, in the rendering; None if it was changed."""
        text = as_text(field_value(candidate, "text"))
        start = len(self.prefix)
        for label, value in self._parts(candidate):
            start += len(label)
            if value == text:
                stop = start + len(value)
                if self.max_characters is not None:
                    stop = min(stop, self.max_characters)
                return (start, stop) if start < stop else None
            start += len(value) + len(self.separator)
        return None

    def _rendered(self, candidate: Candidate) -> str | None:
        pieces = [(self.prefix, True)]
        for number, (label, value) in enumerate(self._parts(candidate)):
            if number:
                pieces.append((self.separator, not self.separator.isspace()))
            pieces.append((label + value, False))
        pieces.append((self.suffix, True))
        text = joined([(well_formed(piece), written) for piece, written in pieces])
        end = len(text) - len(self.suffix)
        if self.max_characters is not None and end > self.max_characters:
            text = sliced(text, (0, self.max_characters), (end, len(text)))
        content = text[len(self.prefix) : len(text) - len(self.suffix)]
        return None if is_blank(content) else text

    def _parts(self, candidate: Candidate) -> list[tuple[str, str]]:
        """The label and the value of each field that has something to show."""
        candidate = self.named(candidate)
        values = [(field.names[0], as_text(field.value(candidate))) for field in self._fields]
        shown = [(name, value) for name, value in values if value and not is_blank(value)]
        if not self.labels:
            return [("", value) for _, value in shown]
        # The text of a framework's document is often a metadata field as well.
        others = {value.strip() for name, value in shown if name != "text"}
        return [
            (f"{name}: ", "\n  ".join(value.splitlines()))
            for name, value in shown
            if name != "text" or value.strip() not in others
        ]


RENDERING = nested(Rendering, optional=True)
"""A parameter whose value is a rendering."""


def well_formed(text: str) -> str:
    """Replace lone surrogates, which tokenizers and JSON encoders reject."""
    if type(text) is not str:
        text = str.__str__(text)  # methods of a subclass may raise anything
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


_UNSEEN = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
"""Unicode's categories of white space, control and format characters, such as U+200B."""


def is_blank(text: str) -> bool:
    """Whether a text has no visible character, so that there is nothing to judge."""
    if text[:1].isalnum():  # the usual case
        return False
    return not text.strip() or all(unicodedata.category(character) in _UNSEEN for character in text)


def _count(value: Any) -> Any:
    """Return the number of items of a list or mapping, and other values unchanged."""
    if not isinstance(value, Sized) or isinstance(value, str | bytes):
        return value
    try:
        return len(value)
    except BaseException as error:  # a foreign __len__ may raise anything
        reraise_exit(error)
        return None


def as_text(value: Any) -> str | None:
    """Render a value; None if there is nothing to render.

    A list is rendered as ``a, b``, a list of mappings as ``a: 1, b: 2; a: 3, b: 4``, and a mapping
    as ``name: value, name: value``. Deeper values are in parentheses.
    """
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # methods of a subclass may raise anything
    try:
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return _collection_text(value, [_MAX_ITEMS])
        return str(value)
    except BaseException as error:  # a foreign __str__ may raise anything
        reraise_exit(error)
        return None


def _within(span: Span, text_range: Span) -> Span | None:
    """The part of a span that lies in a range, from where that begins; None if there is none."""
    start, stop = max(span[0], text_range[0]), min(span[1], text_range[1])
    return (start - text_range[0], stop - text_range[0]) if start < stop else None


def _collection_text(value: Any, remaining: list[int], depth: int = 0) -> str:
    """Render a list or a mapping; ``remaining`` holds how many items may still be rendered."""
    if depth > _MAX_DEPTH:
        return "…"
    is_mapping = isinstance(value, Mapping)
    parts: list[str] = []
    separator = ", "
    for item in value.items() if is_mapping else value:
        remaining[0] -= 1
        if remaining[0] < 0:
            parts.append("…")
            break
        name, inner = item if is_mapping else ("", item)
        if inner is None and is_mapping:
            continue
        if not isinstance(inner, Mapping | list | tuple | set | frozenset):
            text = str(inner)
        elif is_mapping or depth:
            text = f"({_collection_text(inner, remaining, depth + 1)})"
        else:  # an item of the outermost list
            text = _collection_text(inner, remaining, depth + 1)
            separator = "; "
        parts.append(f"{name}: {text}" if is_mapping else text)
    # Sets have no order, and prompts are deterministic.
    return separator.join(sorted(parts) if isinstance(value, set | frozenset) else parts)

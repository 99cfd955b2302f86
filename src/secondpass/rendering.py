"""What of a candidate is shown to a method.

Scorers and prompts read the same rendering, so that a title or a metadata field counts in both.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from secondpass.candidates import field_value
from secondpass.settings import configurable
from secondpass.types import Candidate

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

_COUNT = "|count"


@configurable
@dataclass(frozen=True)
class Rendering:
    """Turns a candidate into the text that is judged.

    Attributes:
        fields: what is shown, in order: ``text``, ``id``, ``score``, or a metadata key. A dot goes
            into nested mappings (``source.title``) where no key has the whole name;
            ``subtasks|count`` shows how many items a list has.
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
    False too.
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
        shown = []
        for field in self.fields:
            name, count = field.removesuffix(_COUNT), field.endswith(_COUNT)
            value = field_value(candidate, name)
            shown.append((name, _shown(_count(value) if count else value)))
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
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _count(value: Any) -> Any:
    """How many items a list or mapping has; a number as it is, for it has been counted already."""
    return len(value) if isinstance(value, Sized) and not isinstance(value, str | bytes) else value


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


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        if isinstance(value, set | frozenset):
            return ", ".join(sorted(map(str, value)))
        if isinstance(value, list | tuple):
            return ", ".join(map(str, value))
        return str(value)
    except Exception:  # a foreign __str__ may raise anything; such a value has nothing to show
        return None

"""The base class of reply formats, and what is read from replies: scores of a batch, or an order.

These values identify documents by place in the question, so they can be stored and used in another
process, where the documents have other labels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

from secondpass.errors import ConfigurationError, with_article
from secondpass.prompts.labels import LabelKind, Labels, label_all
from secondpass.questions import Completion
from secondpass.types import Candidate


@dataclass(frozen=True, slots=True)
class BatchScores:
    """The scores that a reply gives the documents of its question."""

    values: tuple[float | None, ...]
    """For each document a finite float, or None if it has no usable score."""
    refused: tuple[int, ...]  # places of documents whose score is in the reply but cannot be used
    unknown: int = 0  # number of scores for documents that were not shown
    cut: bool = False  # whether the reply broke off
    declined: tuple[int, ...] = ()  # places of documents that the model declined to score

    def is_about(self, count: int) -> bool:
        """Whether this can be an answer about ``count`` documents."""
        return (
            len(self.values) == count
            and all(value is None or _is_finite(value) for value in self.values)
            and _is_count(self.unknown)
            and self.cut is False
            and are_places(self.refused, count)
            and are_places(self.declined, count)
        )


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which a reply puts the documents of its question."""

    places: tuple[int, ...]  # places of documents, best first, each at most once
    doubled: int  # number of repeated labels; the first occurrence counts
    unknown: int  # number of labels that were not shown
    cut: bool = False  # whether the reply broke off
    refused: tuple[int, ...] = ()
    """Places of documents whose rank is in the reply but cannot be used."""

    def is_about(self, count: int) -> bool:
        return (
            are_places(self.places, count)
            and are_places(self.refused, count)
            and _is_count(self.doubled)
            and _is_count(self.unknown)
            and self.cut is False
        )


def dump(value: Any) -> dict[str, Any] | None:
    """A :class:`BatchScores`, one of a subclass, or an :class:`Order` as JSON values.

    None if the reply broke off: the next one may be complete.
    """
    if not isinstance(value, BatchScores | Order):
        raise TypeError(f"{with_article(type(value).__name__)} cannot be stored")
    return None if value.cut else {item.name: getattr(value, item.name) for item in fields(value)}


def load(data: Any, count: int, *kinds: type) -> Any:
    """The reverse of :func:`dump`, for a question with ``count`` documents.

    It uses the first of the ``kinds`` that fits, by default of the classes of this module, and
    raises any exception if the data is no answer about so many documents.
    """
    for kind in kinds or (BatchScores, Order):
        if data.keys() == {item.name for item in fields(kind)}:
            value = kind(**{name: _with_tuples(item) for name, item in data.items()})
            if value.is_about(count):
                return value
    raise ValueError(f"no answer about {count} documents")


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def are_places(places: Iterable[Any], count: int) -> bool:
    """Whether these are distinct places of ``count`` documents."""
    values = list(places)
    valid = all(type(place) is int and 0 <= place < count for place in values)
    return valid and len(set(values)) == len(values)


T_co = TypeVar("T_co", covariant=True)

_OVERHEAD_TOKENS = 16


class ReplyFormat(ABC, Generic[T_co]):
    """What a model is asked to reply, and how its reply is read.

    Subclasses set the class attributes and define :meth:`request` and :meth:`read`. If ``bare``, a
    JSON array is asked for rather than an object that holds it. Providers take schemas of objects
    only, so none is sent then.
    """

    name: ClassVar[str]  # value of the setting `reply` that selects this format
    shape: ClassVar[str]  # what a reply is, for error messages
    tokens_per_document: ClassVar[int]  # expected tokens of a reply, per document
    logprobs: int = 0  # number of alternatives per token whose log probabilities are requested
    needs_logprobs: bool = False  # whether a reply cannot be read without them
    words: Sequence[str] = ()  # a reply is one of them, if only its first token is read

    def __init__(self, labels: LabelKind = "opaque", bare: bool = False) -> None:
        if bare and not isinstance(self, ArrayFormat):
            raise ConfigurationError(
                f"bare: is for arrays; reply {self.name!r} asks for {self.shape}"
            )
        self.labels: LabelKind = labels
        self.bare = bare

    @property
    def first_index(self) -> int | None:
        """The first index if labels are indices; else None."""
        if self.labels == "index0":
            return 0
        return 1 if self.labels == "index1" else None

    @property
    def draws_labels(self) -> bool:
        """Whether labels are drawn at random, so that the answer does not depend on them."""
        return self.labels == "opaque"

    @property
    def key(self) -> str:
        """The name of a label in requests and replies: ``id`` or ``index``."""
        return "id" if self.first_index is None else "index"

    @property
    def placeholder(self) -> str:
        """A label as the request shows it, in JSON."""
        return '"<id>"' if self.first_index is None else "<index>"

    @abstractmethod
    def request(self) -> str:
        """The sentences that ask for the reply, also used as the reminder of a repair."""

    def schema(self, names: Sequence[str]) -> dict[str, Any] | None:  # noqa: ARG002
        """The JSON Schema of a reply about documents with these labels; None if it has none."""
        return None

    def label(self, query: str, texts: Sequence[str], candidates: Sequence[Candidate]) -> Labels:
        """Name the documents of a question."""
        return Labels(label_all(self.labels, query, texts, candidates), self.first_index)

    def expected_tokens(self, documents: int) -> int:
        """The expected number of tokens of a reply about ``documents`` documents."""
        return _OVERHEAD_TOKENS + self.tokens_per_document * documents

    @abstractmethod
    def read(self, completion: Completion, labels: Labels) -> T_co:
        """Read a reply, or raise ReplyError if it is ambiguous or of another format."""

    @property
    def cache_key(self) -> Mapping[str, Any]:
        """What reading a reply depends on besides the class; by default all attributes."""
        return vars(self)

    def dump(self, value: Any) -> Any:
        """A value that was read, as JSON values by place; None if the reply broke off.

        A format whose values are of neither class of this module overrides this and :meth:`load`.
        """
        return dump(value)

    def load(self, data: Any, documents: int) -> T_co:
        """The reverse of :meth:`dump`; any exception if the data is no such value."""
        value: T_co = load(data, documents)
        return value

    def _request_each(self, reply: str, note: str = "") -> str:
        """Ask for a reply that has every label once."""
        base = "" if self.first_index is None else f" Indices count from {self.first_index}."
        return (
            f"Reply with ONLY {reply}. Every {self.key} has to be there exactly once.{note}{base}"
        )


class ArrayFormat(ReplyFormat[T_co]):
    """A JSON array, bare or as the only ``member`` of an object."""

    shape = "an array"
    member: ClassVar[str]

    def _request_array(self, elements: str, order: str = "") -> str:
        """Ask for an array of these elements."""
        array = f"[{elements}, ...]"
        if self.bare:
            return f"a JSON array of this form{order}: {array}"
        return f'one JSON object of this form{order}: {{"{self.member}": {array}}}'

    def schema(self, names: Sequence[str]) -> dict[str, Any] | None:
        if self.bare:
            return None
        label: dict[str, Any]
        if self.first_index is None:
            label = {"type": "string", "enum": list(names)}
        else:
            label = {"type": "integer", "enum": [int(name) for name in names]}
        count = len(names)
        items = self._element_schema(label)
        array = {"type": "array", "items": items, "minItems": count, "maxItems": count}
        return object_schema({self.member: array})

    def _element_schema(self, label: dict[str, Any]) -> dict[str, Any]:
        """The schema of one element, from that of a label."""
        return label


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

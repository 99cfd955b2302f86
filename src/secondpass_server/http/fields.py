"""Reads and checks the fields of requests of all APIs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from secondpass_server.http.errors import RequestError, TooManyTextsError
from secondpass_server.http.settings import ServerSettings

_NAME = re.compile(r"[A-Za-z_]\w{0,39}", re.A)
_MOST_NAMES = 10
"""Maximum number of unused fields to report."""
_MOST_FIELDS = 100
"""Maximum number of names in ``rank_fields``, as each is looked up in each document."""


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A rerank request of any API.

    Attributes:
        query: the query.
        texts: the texts to rank.
        documents: the documents as the client sent them, to be returned.
        model: the name in the request; None if it has none.
        top_n: number of results; None: all.
        instruction: what counts as relevant in this request.
        return_documents: whether the response has the documents.
        raw_scores: whether scores are requested as the model gives them.
        span_threshold: lowest score of documents whose spans are requested; None: no spans.
        unused: names of fields that have no effect.
    """

    query: str = field(repr=False)
    texts: list[str] = field(repr=False)
    documents: list[Any] = field(repr=False)
    model: str | None = None
    top_n: int | None = None
    instruction: str | None = field(default=None, repr=False)
    return_documents: bool = False
    raw_scores: bool = False
    span_threshold: float | None = None
    unused: tuple[str, ...] = ()


class Fields:
    """Reads the fields of a JSON object and remembers which were read. None counts as absent.

    Args:
        body: the parsed body.
        settings: of the server.

    Raises:
        RequestError: the body is not an object.
    """

    def __init__(self, body: Any, settings: ServerSettings) -> None:
        if not isinstance(body, dict):
            raise RequestError(400, f"the body must be a JSON object, not {_kind(body)}")
        self._body: Mapping[str, Any] = body
        self._settings = settings
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._body

    def _get(self, name: str) -> Any:
        self._read.add(name)
        return self._body.get(name)

    def expect(self, name: str, behaviour: bool) -> None:
        """Check a boolean that has no effect; it is `unused` unless it equals the behaviour.

        Raises:
            RequestError: it is not a boolean.
        """
        if self.flag(name, behaviour) != behaviour:
            self._read.discard(name)

    @property
    def unused(self) -> tuple[str, ...]:
        """Names of fields that were not read and are not null; only identifiers."""
        names = [
            name
            for name, value in self._body.items()
            if name not in self._read and value is not None and _NAME.fullmatch(name)
        ]
        return tuple(names[:_MOST_NAMES])

    def text(self, name: str, *, longest: int | None = None) -> str | None:
        """A string.

        Raises:
            RequestError: it is not a string, or too long.
        """
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise RequestError(None, f"{name}: must be a string, not {_kind(value)}")
        limit = self._settings.max_query_characters if longest is None else longest
        if len(value) > limit:
            message = f"{name}: has {len(value)} characters; at most {limit} are accepted"
            raise RequestError(None, message)
        return value

    def query(self, name: str = "query") -> str:
        """The query.

        Raises:
            RequestError: it is absent or blank, or as for :meth:`text`.
        """
        value = self.text(name)
        if value is None:
            raise RequestError(None, f"{name}: is required")
        if not value.strip():
            raise RequestError(None, f"{name}: must not be blank")
        return value

    def model(self) -> str | None:
        """The model's name."""
        return self.text("model", longest=500) or None

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean.

        Raises:
            RequestError: it is not a boolean.
        """
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise RequestError(None, f"{name}: must be true or false, not {_kind(value)}")
        return value

    def count(self, name: str) -> int | None:
        """A whole number of 1 or more.

        Raises:
            RequestError: it is not such a number.
        """
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise RequestError(None, f"{name}: must be a whole number, not {_kind(value)}")
        if value < 1:
            raise RequestError(None, f"{name}: must be 1 or more")
        return value

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """An object.

        Raises:
            RequestError: it is not an object.
        """
        value = self._get(name)
        if value is not None and not isinstance(value, dict):
            raise RequestError(None, f"{name}: must be an object, not {_kind(value)}")
        return value

    def names(self, name: str) -> list[str] | None:
        """A list of strings that is not empty.

        Raises:
            RequestError: it is not such a list, or too long.
        """
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise RequestError(None, f"{name}: must be a list of strings")
        if len(value) > _MOST_FIELDS:
            message = f"{name}: has {len(value)} names; at most {_MOST_FIELDS} are accepted"
            raise RequestError(None, message)
        return value

    def documents(
        self, name: str, *, objects: bool = False, fields: list[str] | None = None
    ) -> tuple[list[str], list[Any]]:
        """The texts to rank, and the documents as they were sent.

        Args:
            name: name of the field.
            objects: whether objects with a ``text`` are accepted as well as strings.
            fields: fields of these objects that are ranked instead of ``text``: the value of a
                single one as it is, several as lines ``name: value``.

        Raises:
            RequestError: it is absent, empty or too long, or an item has a wrong type.
        """
        value = self._get(name)
        if value is None:
            raise RequestError(None, f"{name}: is required")
        if not isinstance(value, list):
            raise RequestError(None, f"{name}: must be a list, not {_kind(value)}")
        if not value:
            raise RequestError(None, f"{name}: must not be empty")
        most = self._settings.max_candidates
        if len(value) > most:
            raise TooManyTextsError(name, len(value), most)
        longest = self._settings.max_text_characters
        texts = []
        for index, document in enumerate(value):
            place = f"{name}[{index}]"
            text = _text_of(document, place, fields) if objects else document
            if not isinstance(text, str):
                wanted = "a string or an object with a text" if objects else "a string"
                raise RequestError(None, f"{place}: must be {wanted}, not {_kind(document)}")
            if len(text) > longest:
                message = f"{place}: has {len(text)} characters; at most {longest} are accepted"
                raise RequestError(None, message)
            texts.append(text)
        return texts, value


def _text_of(document: Any, place: str, fields: list[str] | None) -> Any:
    """The text of a document; for an object its ``text``, or the requested fields."""
    if not isinstance(document, dict):
        return document
    if fields is None:
        text = document.get("text")
        if not isinstance(text, str):
            raise RequestError(None, f"{place}.text: must be a string, not {_kind(text)}")
        return text
    parts = {name: document[name] for name in fields if document.get(name) is not None}
    for name, part in parts.items():
        if isinstance(part, dict | list):
            raise RequestError(None, f"{place}: a field of rank_fields must not be {_kind(part)}")
        parts[name] = part if isinstance(part, str) else str(part)
    if not parts:
        raise RequestError(None, f"{place}: has none of the fields in rank_fields")
    if len(fields) == 1:
        return parts[fields[0]]
    return "\n".join(f"{name}: {part}" for name, part in parts.items())


def _kind(value: Any) -> str:
    """The type of a JSON value in words, without its content."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"

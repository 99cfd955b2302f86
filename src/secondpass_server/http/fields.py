"""Reads and checks the fields of requests of all APIs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from secondpass_server.http.errors import RequestError, TooManyTextsError
from secondpass_server.http.settings import ServerSettings

_NAME = re.compile(r"[A-Za-z_]\w{0,39}", re.A)
_WHOLE = re.compile(r"-?\d{1,9}", re.A)
_FLAGS = {"true": True, "false": False}
_MOST_NAMES = 10
"""Maximum number of unused fields to report."""
_MOST_FIELDS = 100
"""Maximum number of names in ``rank_fields``, as each is looked up in each document."""


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A rerank request of any API.

    ``documents`` are as the client sent them, to be returned. ``span_threshold`` is the lowest
    score of documents whose spans are requested, and ``unused`` names fields that have no effect.
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

    Booleans and whole numbers may be strings, as the servers of these APIs accept them: RAGFlow
    sends ``"return_documents": "true"``.

    What is wrong is a ``RequestError``, which has the name of the field and no text of the request.
    """

    def __init__(self, body: Any, settings: ServerSettings) -> None:
        if not isinstance(body, dict):
            raise RequestError(400, f"the body must be a JSON object, not {_kind(body)}")
        self._body: Mapping[str, Any] = body
        self._settings = settings
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._body

    def _get(self, name: str, kind: type, wanted: str) -> Any:
        """The value of a field, checked; None if it is absent."""
        self._read.add(name)
        value = _typed(self._body.get(name), kind)
        is_right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if value is None or is_right:
            return value
        raise RequestError(None, f"{name}: must be {wanted}, not {_kind(value)}")

    def expect(self, name: str, behaviour: bool) -> None:
        """Check a boolean that has no effect; it is `unused` unless it equals the behaviour."""
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
        """A string, by default at most as long as a query may be."""
        value: str | None = self._get(name, str, "a string")
        limit = longest or self._settings.max_query_characters
        if value is not None:
            _check_length(name, value, limit)
        return value

    def query(self, name: str = "query", *, objects: bool = False, listed: bool = False) -> str:
        """The query, which is not blank.

        With ``objects``, it may be an object as a document may; with ``listed``, a list of one.
        """
        value: str | None
        sent = self._body.get(name)
        if listed and isinstance(sent, list):
            (value, *more), _ = self.documents(name, objects=objects)
            if more:
                message = f"{name}: must be one text; send a request for each"
                raise RequestError(None, message)
            _check_length(name, value, self._settings.max_query_characters)
        elif objects and isinstance(sent, dict):
            self._read.add(name)
            value = _text_of(sent, name)
            _check_length(name, value, self._settings.max_query_characters)
        else:
            value = self.text(name)
        if value is None:
            raise RequestError(None, f"{name}: is required")
        if not value.strip():
            raise RequestError(None, f"{name}: must not be blank")
        return value

    def model(self) -> str | None:
        return self.text("model", longest=500) or None

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._get(name, bool, "true or false")
        return default if value is None else value

    def count(self, name: str) -> int | None:
        """A whole number of 1 or more."""
        value: int | None = self._get(name, int, "a whole number")
        if value is not None and value < 1:
            raise RequestError(None, f"{name}: must be 1 or more")
        return value

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        value: Mapping[str, Any] | None = self._get(name, dict, "an object")
        return value

    def names(self, name: str) -> list[str] | None:
        """A list of strings that is not empty."""
        value: list[str] | None = self._get(name, list, "a list of strings")
        if value is None:
            return None
        if not value or not all(isinstance(item, str) for item in value):
            raise RequestError(None, f"{name}: must be a list of strings")
        if len(value) > _MOST_FIELDS:
            message = f"{name}: has {len(value)} names; at most {_MOST_FIELDS} are accepted"
            raise RequestError(None, message)
        return value

    def documents(
        self,
        name: str,
        *,
        objects: bool = False,
        fields: list[str] | None = None,
        single: bool = False,
    ) -> tuple[list[str], list[Any]]:
        """The texts to rank, and the documents as they were sent.

        With ``objects``, these may have a ``text``, a ``content``, or the ``fields`` that are
        ranked instead: the value of a single one as it is, several as lines ``name: value``. A
        ``content`` is returned as a ``text``. With ``single``, a document counts as a list of one.
        """
        if single and isinstance(sent := self._body.get(name), str | dict):
            self._read.add(name)
            value: Any = [sent]
        else:
            value = self._get(name, list, "a list")
        if value is None:
            raise RequestError(None, f"{name}: is required")
        if not value:
            raise RequestError(None, f"{name}: must not be empty")
        most = self._settings.max_candidates
        if len(value) > most:
            raise TooManyTextsError(name, len(value), most)
        texts: list[str] = []
        documents: list[Any] = []
        for index, document in enumerate(value):
            place = f"{name}[{index}]"
            text, returned = document, document
            if objects and isinstance(document, dict):
                if fields is None:
                    text = _text_of(document, place)
                    returned = {"text": text} if document.get("text") is None else document
                else:
                    text = _ranked_fields(document, place, fields)
            if not isinstance(text, str):
                wanted = "a string or an object with a text" if objects else "a string"
                raise RequestError(None, f"{place}: must be {wanted}, not {_kind(document)}")
            _check_length(place, text, self._settings.max_text_characters)
            texts.append(text)
            documents.append(returned)
        return texts, documents


def _check_length(place: str, text: str, most: int) -> None:
    if len(text) > most:
        message = f"{place}: has {len(text)} characters; at most {most} are accepted"
        raise RequestError(None, message)


def _typed(value: Any, kind: type) -> Any:
    """The value, or the boolean or whole number that is meant by ``"true"``, ``"3"`` or 3.0."""
    if kind is bool and isinstance(value, str):
        return _FLAGS.get(value.lower(), value)
    if kind is int and isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return int(value) if kind is int and isinstance(value, float) and value.is_integer() else value


def _text_of(value: dict[str, Any], place: str) -> str:
    """The ``text`` of an object; without one, its ``content``: a string, or parts with a text."""
    content = value.get("content")
    if value.get("text") is not None or content is None:
        return _string(value, "text", place)
    if not isinstance(content, list):
        return _string(value, "content", place)
    if not content:
        raise RequestError(None, f"{place}.content: must not be empty")
    parts = enumerate(content)
    return "\n".join(_string(part, "text", f"{place}.content[{index}]") for index, part in parts)


def _string(value: Any, name: str, place: str) -> str:
    """A string that an object must have."""
    if not isinstance(value, dict):
        raise RequestError(None, f"{place}: must be an object with a text, not {_kind(value)}")
    text = value.get(name)
    if text is None:
        raise RequestError(None, f"{place}.{name}: is required")
    if not isinstance(text, str):
        raise RequestError(None, f"{place}.{name}: must be a string, not {_kind(text)}")
    return text


def _ranked_fields(document: dict[str, Any], place: str, fields: list[str]) -> str:
    """The value of a single field, or a line for each."""
    parts = {name: document[name] for name in fields if document.get(name) is not None}
    for part in parts.values():
        if isinstance(part, dict | list):
            raise RequestError(None, f"{place}: a field of rank_fields must not be {_kind(part)}")
    if not parts:
        raise RequestError(None, f"{place}: has none of the fields in rank_fields")
    if len(fields) == 1:
        return str(parts[fields[0]])
    return "\n".join(f"{name}: {part}" for name, part in parts.items())


def _kind(value: Any) -> str:
    """The type of a JSON value in words, without its content."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    kinds: dict[Any, str] = {str: "a string", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")

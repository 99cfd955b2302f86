"""Keys of answers in the response cache: hashes of everything that an answer depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from secondpass.errors import reraise_exit, with_article
from secondpass.questions import Question

_SIZE = 32
"""Bytes of a key."""

_MAX_DEPTH = 50  # of nested values in a key


class NotStorableError(Exception):
    """Answers cannot be stored; the message says why, for the report."""


def service_key(service: object, namespace: str = "") -> bytes:
    """The part of a key that is the same for all questions to a service.

    It includes the version of secondpass, because a new version may read replies differently.
    Answers of different namespaces have different keys.

    Raises:
        NotStorableError: the service has no ``cache_key``, or one of other than plain values.
    """
    try:
        key = getattr(service, "cache_key", None)
    except BaseException as error:  # the user's own code may raise anything
        reraise_exit(error)
        raise NotStorableError(f"its cache_key raised {type(error).__name__}") from None
    if key is None:
        raise NotStorableError("it has no cache_key")
    version = import_module("secondpass").__version__
    return _digest([version, namespace, _class_name(type(service)), key], "its cache_key")


def answer_key(service: bytes, question: Question[Any, Any]) -> bytes:
    """The key of the answer to a question, or a NotStorableError."""
    if question.recall is None:
        raise NotStorableError("its method does not say what an answer depends on")
    try:
        key = question.recall.key()
    except BaseException as error:  # the user's own code, such as a template, may raise anything
        reraise_exit(error)
        raise NotStorableError(f"making the key raised {type(error).__name__}") from None
    return _digest([service.hex(), key], "the key of a question")


def _digest(value: Any, what: str) -> bytes:
    """The hash of a value; a NotStorableError that says ``what`` it is if it is not plain."""
    try:
        text = json.dumps(_plain(value), separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise NotStorableError(f"{what} is not of plain values") from error
    return hashlib.blake2b(text.encode(), digest_size=_SIZE).digest()


def _plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON values; different values stay different."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    # Only these become JSON objects, so that no list or string is equal to one.
    if isinstance(value, Mapping):
        pairs = [[_plain(key, depth + 1), _plain(value[key], depth + 1)] for key in value]
        names_only = all(isinstance(key, str) for key in value)
        pairs.sort(key=lambda pair: pair[0] if names_only else json.dumps(pair[0]))
        return {"mapping": pairs}
    if isinstance(value, type):
        raise TypeError("a class has no cache_key")
    if is_dataclass(value):
        members = {item.name: getattr(value, item.name) for item in fields(value)}
        return {_class_name(type(value)): _plain(members, depth + 1)}
    if (key := getattr(value, "cache_key", None)) is not None:
        return {_class_name(type(value)): _plain(key, depth + 1)}
    raise TypeError(f"{with_article(type(value).__name__)} has no cache_key")


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"

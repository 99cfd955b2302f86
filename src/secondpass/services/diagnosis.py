"""The parts of a server's response that error messages may show: its address, and safe words.

Used by all clients. No part of the request or of a key may appear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from secondpass.services.echoes import RUN, Sent
from secondpass.settings.secrets import bare

_MAX_WORDS = 200
_MAX_NAMES = 8
_IDENTIFIER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-\[\]]{0,63}")
_MARKUP = re.compile(r"<[!?/A-Za-z]")
"""The beginning of a web page, unlike ``<400> Value error``."""


def words(body: Any, sent: Sent) -> str:
    """The server's code, type and parameter, then its message; empty if nothing is safe to show.

    Args:
        body: of the response; text, or parsed JSON.
        sent: texts and keys that must not appear.
    """
    named = [
        f"{name} {value}"
        for name, value in _structured(body)
        if _IDENTIFIER.fullmatch(value) and not sent.holds_part_of(value)
    ]
    message = _clean(_message(body))
    if _MARKUP.match(message) or sent.holds_part_of(message[: _MAX_WORDS + RUN]):
        message = ""
    elif len(message) > _MAX_WORDS:
        message = message[: _MAX_WORDS - 1] + "…"
    return ": ".join(filter(None, [", ".join(dict.fromkeys(named)), message]))


def names(values: Iterable[Any], sent: Sent) -> list[str]:
    """The first names of members in a response that are safe to show.

    Args:
        values: the names.
        sent: texts and keys that must not appear.
    """
    first = [name for name in islice(values, _MAX_NAMES) if isinstance(name, str)]
    return [name for name in first if _IDENTIFIER.fullmatch(name) and not sent.holds_part_of(name)]


def codes(body: Any) -> str:
    """The server's error codes and types, for matching; never shown."""
    return "\n".join(
        value
        for name, value in _structured(body)
        if name in {"code", "type"} and _IDENTIFIER.fullmatch(value)
    )


def address(error: BaseException, base_url: str | None) -> str:
    """The address of the request, without user, password, query and fragment.

    Args:
        error: of an HTTP library or an SDK; it may hold the request.
        base_url: the address if it does not.
    """
    link: BaseException | None = error
    url = ""
    for _ in range(10):
        if link is None or url:
            break
        url = _requested(link)
        link = link.__cause__ or link.__context__
    return bare(url or base_url or "")


def _requested(error: BaseException) -> str:
    for holder in (getattr(error, "response", None), error):
        try:
            url = getattr(getattr(holder, "request", None), "url", None)
        except RuntimeError:  # httpx: no request is set
            continue
        if url is not None:
            return str(url)
    return ""


def _holders(body: Any) -> Iterator[Mapping[Any, Any]]:
    """The objects in a body that may describe the error."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping):
        inner = body.get("error")
        if isinstance(inner, Mapping):
            yield inner
        detail = body.get("detail")
        if isinstance(detail, list) and detail and isinstance(detail[0], Mapping):
            yield detail[0]
        elif isinstance(detail, Mapping):
            yield detail
        yield body


_NAMES = {"code": ("code",), "type": ("type", "error_type", "status"), "param": ("param", "loc")}


def _structured(body: Any) -> list[tuple[str, str]]:
    """The code, type and parameter of a body: the first of each."""
    fields: list[tuple[str, str]] = []
    for name, keys in _NAMES.items():
        values = [_identifier(holder.get(key)) for holder in _holders(body) for key in keys]
        fields += [(name, value) for value in values if value and value != "error"][:1]
    return fields


def _identifier(value: Any) -> str:
    if isinstance(value, list) and all(type(part) in {str, int} for part in value[:9]):
        return ".".join(map(str, value[:9]))
    if type(value) is int and 600 <= value < 10**9:  # smaller ones repeat the status
        return str(value)
    return value if isinstance(value, str) else ""


def _message(body: Any) -> str:
    if isinstance(body, str):
        return body[:2000]
    for holder in _holders(body):
        for key in ("message", "msg", "error", "detail"):
            if isinstance(value := holder.get(key), str) and value:
                return value[:2000]
    return ""


def _clean(text: str) -> str:
    printable = (character if character.isprintable() else " " for character in text)
    return " ".join("".join(printable).split())


def strings_in(values: Sequence[Any]) -> Iterator[str]:
    """The strings in request parameters, at any depth."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from strings_in(list(value.values()))
        elif isinstance(value, list | tuple):
            yield from strings_in(value)

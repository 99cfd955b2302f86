"""JSON over plain HTTP, for services that are called without an SDK."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from secondpass.services.client import NO_KEY, Connection
from secondpass.services.http import MAX_SDK_VALUES, bounded


class StatusError(Exception):
    """A response with an error status, as :mod:`secondpass.services.provider_errors` reads it."""

    def __init__(self, response: Any) -> None:
        super().__init__(response.status_code)
        self.status_code: int = response.status_code
        self.response = response
        body = parse_json(response.text)
        self.body: Any = body if isinstance(body, dict) else response.text


INVALID = object()
"""What :func:`parse_json` returns for text that is not JSON."""


def connect(key: str, timeout: float, *, max_values: int = MAX_SDK_VALUES) -> Connection:
    """An httpx client that sends the key, unless that is ``NO_KEY``, as a bearer token."""
    import httpx

    client = bounded(httpx.AsyncClient, timeout, max_values=max_values)
    if key != NO_KEY:
        client.headers["authorization"] = f"Bearer {key}"
    return Connection(client, client.aclose)


class Ambiguous(dict[str, Any]):
    """An object in which the names ``doubled`` stand more than once: of each, the last value."""

    doubled: frozenset[str]


def parse_json(text: str, *, mark_doubled: bool = False) -> Any:
    """The value of a JSON text; infinities become NaN. ``INVALID`` if it is not JSON.

    With ``mark_doubled``, an object with a doubled name becomes an :class:`Ambiguous`.
    """
    pairs = _object if mark_doubled else None
    try:
        return json.loads(text, parse_constant=lambda _name: math.nan, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return INVALID


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    ambiguous = Ambiguous(members)
    counts = Counter(name for name, _ in pairs)
    ambiguous.doubled = frozenset(name for name, count in counts.items() if count > 1)
    return ambiguous

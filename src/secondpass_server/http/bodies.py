"""Reads bodies of requests, with limits on size and time."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from secondpass.formats.lines import DoubledKeyError, strict_json
from secondpass_server.http.admission import Slot
from secondpass_server.http.errors import ClientGoneError, RequestError
from secondpass_server.http.settings import ServerSettings

CLOSE = {"Connection": "close"}

_DISCARDED_BYTES = 2**20
_DISCARD_SECONDS = 1.0
"""Limits of the part of a body that is read and dropped before an error is sent: closing a
connection with unread bytes resets it, and the client may not see the response."""
LARGE_BYTES = 2**17
"""Bytes of JSON from which it is parsed and written in a thread, so that other requests continue
between the steps. The longest step, the parser's, blocks them for 45 ms at 8 MiB."""
_MAX_VALUES = 200_000
"""Maximum number of JSON values in a body."""
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.S)
"""A string, also an unterminated one: otherwise the search would restart at each of its quotes."""


class Body:
    def __init__(self, request: Request, settings: ServerSettings) -> None:
        self._request = request
        self._settings = settings
        self._stream = request.stream()
        self._ended = False

    def check_head(self) -> None:
        headers = self._request.headers
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        # Browsers send other types for pages of any origin without a preflight request.
        if media_type != "application/json" and not media_type.endswith("+json"):
            message = "the content type must be application/json"
            raise RequestError(415, message, "unsupported_media_type")
        if headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}:
            message = "a content encoding is not supported; send the body as it is"
            raise RequestError(415, message, "unsupported_media_type")
        lengths = headers.getlist("content-length")
        if lengths and "transfer-encoding" in headers:
            message = "give Content-Length or Transfer-Encoding, not both"
            raise RequestError(400, message, close=True)
        if lengths and int(lengths[0]) > self._settings.max_bytes:
            raise self._too_long()

    async def read(self, slot: Slot) -> Any:
        raw = await self.read_bytes(slot)
        return parse(raw) if len(raw) <= LARGE_BYTES else await asyncio.to_thread(parse, raw)

    async def read_bytes(self, slot: Slot) -> bytes:
        """The body; the slot counts its bytes."""
        chunks = bytearray()
        try:
            async with asyncio.timeout(self._settings.body_timeout):
                async for chunk in self._stream:
                    slot.add(len(chunk))
                    chunks += chunk
                    if len(chunks) > self._settings.max_bytes:
                        raise self._too_long()
        except TimeoutError:
            message = f"the body did not arrive within {self._settings.body_timeout:g} s"
            raise RequestError(408, message, "timeout", close=True) from None
        except ClientDisconnect:
            raise ClientGoneError from None
        self._ended = True
        return bytes(chunks)

    async def discard(self) -> bool:
        """Read and drop the rest of the body, within limits; return whether its end was read."""
        expect = self._request.headers.get("expect", "").lower()
        if self._ended or "100-continue" in expect:  # the client sends no body before a response
            return self._ended
        dropped = 0
        try:
            async with asyncio.timeout(_DISCARD_SECONDS):
                async for chunk in self._stream:
                    dropped += len(chunk)
                    if dropped > max(_DISCARDED_BYTES, self._settings.max_bytes):
                        return False
        except (TimeoutError, ClientDisconnect, RuntimeError):
            # Starlette raises RuntimeError if an iteration of the stream was interrupted.
            return False
        self._ended = True
        return True

    def _too_long(self) -> RequestError:
        message = f"the body is too long; at most {self._settings.max_bytes} bytes are accepted"
        return RequestError(413, message, "too_large")


async def error_headers(error: RequestError, body: Body) -> dict[str, str]:
    """The headers of a response to a failed request; closes the connection if bytes are unread."""
    is_read = await body.discard()
    return error.headers if is_read and not error.close else {**error.headers, **CLOSE}


async def wait_for_disconnect(receive: Receive) -> Message:
    """Return the message that the client has disconnected, when it comes."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


def parse(raw: bytes) -> Any:
    """The value of a JSON text in UTF-8."""
    if _separators(raw) > _MAX_VALUES and _separators(_STRINGS.sub(b"", raw)) > _MAX_VALUES:
        message = f"the body has too many JSON values; at most {_MAX_VALUES} are accepted"
        raise RequestError(413, message, "too_large")
    try:
        return strict_json(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise RequestError(400, "the body is not UTF-8") from None
    except DoubledKeyError:
        raise RequestError(400, "an object of the body has a key twice") from None
    except (ValueError, RecursionError):
        # Without the parser's message, which may quote the body.
        raise RequestError(400, "the body is not valid JSON") from None


def _separators(raw: bytes) -> int:
    """An upper bound of the number of values: characters before values, also within strings."""
    return sum(map(raw.count, (b",", b"[", b"{")))

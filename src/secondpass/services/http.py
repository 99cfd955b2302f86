"""HTTP clients that limit the size of responses and follow no redirects.

Built from the client class of each provider's SDK (httpx or httpx2), so that proxies and
certificates from the environment work as they do for that SDK.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import re
import sys
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from contextvars import ContextVar
from functools import cache
from http.client import responses
from typing import Any

from secondpass.services.throttle import THROTTLE

MAX_BYTES = 16 * 2**20
"""Bytes of one response, compressed or not. Replies of rerankers have a few kilobytes."""
_MAX_ERROR_BYTES = 2**20
"""Bytes of an error's body; the rest is not read."""
_MAX_PIECE = 2**18
"""Bytes that are decompressed in one step."""
_CHUNKS_PER_TURN = 100
"""Chunks of a response that are read before other tasks run."""
MAX_VALUES = 1_200_000
"""JSON values of one response: strings, numbers, arrays, objects."""
MAX_SDK_VALUES = 20_000
"""The limit for SDKs, which take up to 0.1 ms per value. Replies have a few hundred."""

RECEIVED: ContextVar[bytearray | None] = ContextVar("secondpass_received", default=None)
"""Takes the beginning of the body of a successful response, in UTF-8, for an error message."""
_MAX_RECEIVED = 20_000


class ResponseTooLongError(Exception):
    """A response has too many bytes or values, or a content encoding that was not requested."""


class UnreadableResponseError(Exception):
    """A response does not match its headers, or is not UTF-8."""


class RedirectedError(Exception):
    """A response is a redirect. Keys and passages are not sent elsewhere."""


def bounded(
    client_class: type,
    timeout: float,
    *,
    max_values: int = MAX_SDK_VALUES,
    shorten: Callable[[Any], None] | None = None,
    **options: Any,
) -> Any:
    """An asynchronous client that follows no redirects and limits the size of responses.

    Args:
        client_class: httpx.AsyncClient, httpx2.AsyncClient or a subclass.
        timeout: seconds per read; the driver limits the whole request.
        max_values: JSON values in one response.
        shorten: removes from the body of a response with more values what is never read.
        options: further arguments of the class.
    """
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).addFilter(_without_reason)  # one that is there is not added again

    async def limit(response: Any) -> None:
        if (throttle := THROTTLE.get()) is not None:
            throttle.note(response.headers, time.monotonic())
        await _limit(response, max_values, shorten)

    return client_class(
        timeout=timeout,
        follow_redirects=False,
        event_hooks={"request": [_prepare], "response": [limit]},
        **options,
    )


async def _prepare(request: Any) -> None:
    request.headers["accept-encoding"] = "gzip"  # can be decompressed in pieces, see below
    # The connection takes the parts of a URL, not its text, and so sends all of it.
    request.url = _unlogged(_url_class(request.url))(request.url)


class _Unlogged:
    """A URL of a request of secondpass."""


def _without_reason(record: logging.LogRecord) -> bool:
    """Put the usual words for a status into a client's log: a server may repeat the request there.

    The client's record at INFO has method, URL, version, status and these words.
    """
    arguments = record.args
    if isinstance(arguments, tuple) and any(isinstance(item, _Unlogged) for item in arguments):
        *others, status, _ = arguments
        record.args = (*others, status, responses.get(status, "") if type(status) is int else "")
    return True


def _url_class(url: Any) -> Any:
    """URL of httpx or httpx2; a request that is sent again has its subclass."""
    return next(kind for kind in reversed(type(url).__mro__) if kind is not object)


@cache
def _unlogged(url_class: Any) -> Any:
    """The class of URLs that show no user, password and query: these may be keys.

    httpx logs the URL of each request at the level INFO.
    """

    class Unlogged(_Unlogged, url_class):  # type: ignore[misc]
        def __str__(self) -> str:
            return str(url_class(self).copy_with(userinfo=b"", query=None, fragment=None))

        __repr__ = __str__

    return Unlogged


async def _limit(
    response: Any, max_values: int, shorten: Callable[[Any], None] | None = None
) -> None:
    """Count and decompress the body here: httpx decompresses without a limit.

    The body has to be UTF-8, as that of JSON has. The charset that a server declares is ignored:
    some of Python's codecs take quadratic time.
    """
    if response.status_code // 100 == 3:
        # One SDK would parse the body of a redirect as an answer.
        raise RedirectedError(response.status_code)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "", "gzip", "deflate"}:
        raise ResponseTooLongError("content encoding was not requested")
    package = sys.modules[type(response).__module__.partition(".")[0]]
    body = _Body(response, encoding, max_values, shorten)

    class Limited(package.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __aiter__(self) -> AsyncIterator[bytes]:
            return body.error() if response.status_code >= 400 else body.answer()

        async def aclose(self) -> None:
            await body.raw.aclose()

    response.stream = Limited()
    if encoding in {"gzip", "deflate"}:
        del response.headers["content-encoding"]
    if kind := response.headers.get("content-type"):
        response.headers["content-type"] = kind.partition(";")[0].partition(",")[0].strip()


class _Body:
    """The body of a response, within the limits."""

    def __init__(
        self,
        response: Any,
        encoding: str,
        max_values: int,
        shorten: Callable[[Any], None] | None,
    ) -> None:
        self.raw = response.stream
        self._response = response
        self._connection = _h11_connection(self.raw)
        self._decompressor = _Decompressor(encoding)
        self._max_values = max_values
        self._shorten = shorten
        self._kept = RECEIVED.get()

    async def answer(self) -> AsyncIterator[bytes]:
        """The text of a successful response, with no more values than allowed."""
        reader = _Utf8Reader(self._kept)
        counter = _ValueCounter(self._max_values if self._shorten is None else MAX_VALUES)
        held = []
        async with aclosing(self._decompressed()) as pieces:
            async for piece in pieces:
                if text := reader.feed(piece):
                    counter.feed(text)
                    if self._shorten is None:
                        yield text
                    else:
                        held.append(text)
        text = b"".join([*held, reader.rest()])
        if self._shorten is not None and counter.count > self._max_values:
            text = _shortened(text, self._shorten, _ValueCounter(self._max_values))
        yield text
        await self._discard_surplus()

    async def error(self) -> AsyncIterator[bytes]:
        """The beginning of the body of an error. Its values are not counted: no SDK parses them."""
        size = 0
        async with aclosing(self._decompressed()) as pieces:
            async for piece in pieces:
                yield piece.removeprefix(codecs.BOM_UTF8) if size == 0 else piece
                size += len(piece)
                if size > _MAX_ERROR_BYTES:
                    return  # httpx closes the connection
        await self._discard_surplus()

    async def _decompressed(self) -> AsyncGenerator[bytes, None]:
        """The pieces of the body, or a ResponseTooLongError."""
        received = size = chunks = 0
        async for chunk in self.raw:
            chunks += 1
            if chunks % _CHUNKS_PER_TURN == 0:
                await asyncio.sleep(0)  # buffered chunks arrive without a wait
            received += len(chunk)
            if received > MAX_BYTES:
                raise ResponseTooLongError("too many bytes")
            for piece in self._decompressor.pieces(chunk):
                size += len(piece)
                if size > MAX_BYTES:
                    raise ResponseTooLongError("too many bytes")
                yield piece

    async def _discard_surplus(self) -> None:
        """Do not reuse a connection with bytes after the response.

        They would be read as the answer to the next request.
        """
        if self._connection is not None:
            if self._connection.trailing_data[0]:
                self._connection.send_failed()  # so that the pool closes it
        elif self._response.extensions.get("http_version", b"").startswith(b"HTTP/1"):
            # An unknown version of the HTTP library: never reuse the connection.
            stream = self._response.extensions.get("network_stream")
            if stream is not None:
                await stream.aclose()


def _shortened(text: bytes, shorten: Callable[[Any], None], counter: _ValueCounter) -> bytes:
    """A body without what is never read, unless it is of another form or still too long."""
    try:
        body = json.loads(text)
        shorten(body)
        text = json.dumps(body).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise ResponseTooLongError("too many values") from None
    counter.feed(text)
    return text


def _h11_connection(stream: Any) -> Any:
    """The h11 connection that a response's stream reads from, or None."""
    for _ in range(10):
        state = getattr(stream, "_h11_state", None)
        if state is not None:
            known = hasattr(state, "trailing_data") and hasattr(state, "send_failed")
            return state if known else None
        inner = (getattr(stream, name, None) for name in _INNER)
        stream = next((attribute for attribute in inner if attribute is not None), None)
    return None


_INNER = ("_stream", "_httpcore_stream", "_connection")
"""Private attributes of httpx and httpcore that hold the wrapped stream."""


class _Decompressor:
    """Decompresses one gzip member, or zlib, in pieces of limited size."""

    def __init__(self, encoding: str) -> None:
        self._zlib: zlib._Decompress | None = None
        if encoding == "gzip":
            self._zlib = zlib.decompressobj(_GZIP_OR_ZLIB)
        elif encoding == "deflate":
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The pieces of a chunk. The caller checks the size of each before the next."""
        if self._zlib is None:
            yield chunk
            return
        while not self._zlib.eof:
            try:
                piece = self._zlib.decompress(chunk, _MAX_PIECE)
            except zlib.error:
                raise UnreadableResponseError("does not match its content encoding") from None
            yield piece
            chunk = self._zlib.unused_data or self._zlib.unconsumed_tail
            # After a full piece, the decompressor may have more output for the same input.
            if not chunk and len(piece) < _MAX_PIECE:
                return
        if chunk.strip(b"\0"):  # other than padding
            raise UnreadableResponseError("goes on after its compressed data")


_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
"""A window of any size, of the format that the header says."""


class _ValueCounter:
    """Counts the values of a JSON text before it is parsed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.count = 0
        self._in_string = False
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Count the values in the next bytes, or raise ResponseTooLongError."""
        text = _JSON_ESCAPE.sub(b"", self._rest + piece)
        self._rest = b""
        if text.endswith(b"\\"):
            text, self._rest = text[:-1], b"\\"
        if self._in_string:
            text = b'"' + text
        outside, strings = _JSON_STRING.subn(b"", text)
        outside, quote, _ = outside.partition(b'"')  # a string that continues in the next piece
        self._in_string = bool(quote)
        self.count += strings + sum(map(outside.count, (b",", b"{", b"[")))
        if self.count > self._limit:
            raise ResponseTooLongError("too many values")


_JSON_ESCAPE = re.compile(rb"\\.", re.S)
_JSON_STRING = re.compile(rb'"[^"]*"')


class _Utf8Reader:
    """Checks that the text of an answer is UTF-8, and removes its byte order mark.

    The beginning of the text is added to ``kept``, unless that is None.
    """

    def __init__(self, kept: bytearray | None) -> None:
        self._kept = kept
        self._start: bytes | None = b""  # the first bytes; None once there were enough of them

    def feed(self, piece: bytes) -> bytes:
        """The text of the next bytes; empty as long as these are the first few.

        Raises:
            UnreadableResponseError: it is in UTF-16 or UTF-32. Parsers of JSON detect these, but
                their values are not counted as they have to be.
        """
        if self._start is None:
            return self._text(piece)
        self._start += piece
        return self.rest() if len(self._start) >= 4 else b""

    def rest(self) -> bytes:
        """The text of the first few bytes, if the body has no more."""
        start, self._start = self._start, None
        if start is None:
            return b""
        if not json.detect_encoding(start).startswith("utf-8"):
            raise UnreadableResponseError("is not UTF-8")
        return self._text(start.removeprefix(codecs.BOM_UTF8))

    def _text(self, text: bytes) -> bytes:
        if self._kept is not None:
            self._kept += text[: _MAX_RECEIVED - len(self._kept)]
        return text

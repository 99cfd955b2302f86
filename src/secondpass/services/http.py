"""HTTP clients that no server can overwhelm, redirect, or keep waiting.

Built from the client class that each provider's SDK brings (httpx or httpx2), so that proxies and
certificates from the environment work as they do for that SDK.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

MAX_BYTES = 16 * 2**20
"""Of one response, packed or unpacked. Replies of rerankers have some kilobytes."""
_MOST_ERROR_BYTES = 2**20
"""Of an error's body; the rest is not read."""
_MOST_MEMBERS = 1000
"""Of one gzip stream; each costs a new decompressor."""
_MOST_AT_ONCE = 2**18
"""Bytes that are unpacked in one step."""
_CHUNKS_IN_A_ROW = 100
"""After so many of a response, other requests get their turn."""
MAX_VALUES = 1_200_000
"""Of the JSON of one response: strings, numbers, lists, mappings."""
MAX_SDK_VALUES = 20_000
"""The same where an SDK makes an object of each, at up to 0.1 ms. Replies have some hundred."""

_BOMS = (
    # The byte order mark of UTF-32-LE begins with that of UTF-16-LE.
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class ResponseTooLongError(Exception):
    """A response has more bytes or values than allowed, or is packed in a way not asked for."""


class UnreadableResponseError(Exception):
    """A response whose bytes are not what its headers or its byte order mark say."""


class RedirectedError(Exception):
    """A response is a redirect; neither keys nor passages are sent elsewhere."""


def bounded(
    client_class: type, timeout: float, *, max_values: int = MAX_SDK_VALUES, **options: Any
) -> Any:
    """An asynchronous client which follows no redirect and stops reading at the limit.

    Args:
        client_class: httpx.AsyncClient, httpx2.AsyncClient or a subclass.
        timeout: seconds for each read; the driver's clock covers the whole.
        max_values: of the JSON of an answer.
        options: further arguments of the class.
    """

    async def bound(response: Any) -> None:
        await _bound(response, max_values)

    return client_class(
        timeout=timeout,
        follow_redirects=False,
        event_hooks={"request": [_ask_for_gzip], "response": [bound]},
        **options,
    )


async def _ask_for_gzip(request: Any) -> None:
    request.headers["accept-encoding"] = "gzip"  # what can be unpacked piece by piece below


async def _bound(response: Any, max_values: int) -> None:
    """Have the body counted, unpacked and made UTF-8 here: httpx unpacks without a limit.

    No charset that a server declares is looked up: some of Python's codecs take quadratic time.
    """
    if response.status_code // 100 == 3:
        # One SDK would read the body of a redirect as an answer.
        raise RedirectedError(response.status_code)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "", "gzip", "deflate"}:
        raise ResponseTooLongError("packed in a way that was not asked for")
    package = sys.modules[type(response).__module__.partition(".")[0]]
    raw = response.stream
    connection = _http11_state(raw)
    failed = response.status_code >= 400

    class Bounded(package.AsyncByteStream):  # type: ignore[name-defined, misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            unpacked = _Unpacker(encoding)
            decoded = _Utf8("replace" if failed else "strict")
            values = _ValueCounter(max_values)
            received = count = chunks = 0
            async for chunk in raw:
                chunks += 1
                if chunks % _CHUNKS_IN_A_ROW == 0:
                    await asyncio.sleep(0)  # many small ones come without a wait between them
                received += len(chunk)
                if received > MAX_BYTES:
                    raise ResponseTooLongError("longer than any reply")
                for piece in unpacked.pieces(chunk):
                    count += len(piece)
                    if count > MAX_BYTES:
                        raise ResponseTooLongError("longer than any reply")
                    if text := decoded.feed(piece):
                        if not failed:  # an error's body is short, and parsed by json alone
                            values.feed(text)
                        yield text
                if failed and count > _MOST_ERROR_BYTES:
                    return  # a connection that is not read to its end is closed
            yield decoded.feed(b"", final=True)
            await self._leave_surplus()

        async def aclose(self) -> None:
            await raw.aclose()

        async def _leave_surplus(self) -> None:
            """Do not reuse a connection with bytes behind the response.

            They would be taken for the answer to the next request.
            """
            if connection is not None:
                if connection.trailing_data[0]:
                    connection.send_failed()  # so that the pool closes it
            elif response.extensions.get("http_version", b"").startswith(b"HTTP/1"):
                # An unknown version of the HTTP library: without a look, nothing is reused.
                stream = response.extensions.get("network_stream")
                if stream is not None:
                    await stream.aclose()

    response.stream = Bounded()
    if encoding in {"gzip", "deflate"}:
        del response.headers["content-encoding"]
    if kind := response.headers.get("content-type"):
        response.headers["content-type"] = kind.partition(";")[0].partition(",")[0].strip()


def _http11_state(stream: Any) -> Any:
    """The h11 connection that a response's stream reads from; None where none is found."""
    for _ in range(10):
        state = getattr(stream, "_h11_state", None)
        if state is not None:
            known = hasattr(state, "trailing_data") and hasattr(state, "send_failed")
            return state if known else None
        inner = (getattr(stream, name, None) for name in _INNER)
        stream = next((one for one in inner if one is not None), None)
    return None


_INNER = ("_stream", "_httpcore_stream", "_connection")
"""Where httpx and httpcore keep what a stream wraps. Tested against the installed versions."""


class _Unpacker:
    """Unpacks gzip of one or several members, and zlib, no more than the limit at a time."""

    def __init__(self, encoding: str) -> None:
        # 47: gzip or zlib, by the header.
        self._bits = {"gzip": 47, "deflate": zlib.MAX_WBITS}.get(encoding)
        self._unpack = None if self._bits is None else zlib.decompressobj(self._bits)
        self._members = 1

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """What a chunk holds, piece by piece; check the size of each before the next."""
        while True:
            if self._unpack is None or self._bits is None:
                yield chunk
                return
            if self._unpack.eof:
                chunk = chunk.lstrip(b"\0")  # padding is allowed behind a member
                if not chunk:
                    return
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise ResponseTooLongError("packed in too many pieces")
                self._unpack = zlib.decompressobj(self._bits)
            try:
                piece = self._unpack.decompress(chunk, _MOST_AT_ONCE)
            except zlib.error:
                raise UnreadableResponseError("not packed as its headers say") from None
            yield piece
            if self._unpack.eof:
                chunk = self._unpack.unused_data
                continue
            chunk = self._unpack.unconsumed_tail
            # A full piece may not be all that the decompressor can give for what it has read.
            if not chunk and len(piece) < _MOST_AT_ONCE:
                return


class _ValueCounter:
    """Counts the values of a JSON text, before anything makes objects of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._in_string = False
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """The next bytes.

        Raises:
            ResponseTooLongError: there are too many values.
        """
        text = _JSON_ESCAPE.sub(b"", self._rest + piece)
        self._rest = b""
        if text.endswith(b"\\"):
            text, self._rest = text[:-1], b"\\"
        if self._in_string:
            text = b'"' + text
        outside, strings = _JSON_STRING.subn(b"", text)
        outside, quote, _ = outside.partition(b'"')  # a string that the next piece goes on with
        self._in_string = bool(quote)
        self._count += strings + sum(map(outside.count, (b",", b"{", b"[")))
        if self._count > self._most:
            raise ResponseTooLongError("more values than any reply")


_JSON_ESCAPE = re.compile(rb"\\.", re.S)
_JSON_STRING = re.compile(rb'"[^"]*"')


class _Utf8:
    """Text in UTF-8, or in UTF-16 or UTF-32 with a byte order mark, as UTF-8 without one."""

    def __init__(self, errors: str) -> None:
        self._errors = errors
        self._start: bytes | None = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, piece: bytes, final: bool = False) -> bytes:
        """The next bytes."""
        if self._start is not None:
            piece = self._start + piece
            if len(piece) < 4 and not final:
                self._start = piece
                return b""
            self._start = None
            piece = self._begin(piece)
        if self._decoder is None:
            return piece
        try:
            return self._decoder.decode(piece, final).encode("utf-8", self._errors)
        except UnicodeError:
            raise UnreadableResponseError("not the text that its byte order mark says") from None

    def _begin(self, piece: bytes) -> bytes:
        for mark, encoding in _BOMS:
            if piece.startswith(mark):
                if encoding != "utf-8":
                    self._decoder = codecs.getincrementaldecoder(encoding)(self._errors)
                return piece[len(mark) :]
        return piece

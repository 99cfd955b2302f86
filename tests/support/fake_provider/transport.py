"""Faults below HTTP's meaning: slow, endless, broken, misdirected or packed responses."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from functools import cache

from fake_provider.requests import End, Pause, Request, Step, Wire
from fake_provider.steps import good_but, good_bytes, http, raw


def silence() -> Step:
    """Nothing, for ever."""
    return raw(End.HOLD)


def headers_then_silence() -> Step:
    """A status line and headers, then nothing."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    return raw(head, b'{"id": ', End.HOLD)


def drip() -> Step:
    """A good reply, a byte at a time: no single read takes long, all of them together do."""

    def step(request: Request) -> Iterator[Wire]:
        for byte in http(200, good_bytes(request)):
            yield bytes([byte])
            yield Pause(0.1)

    return step


def _endless(head: bytes, part: bytes) -> Step:
    def step(_request: Request) -> Iterator[Wire]:
        yield head
        while True:
            yield part
            yield Pause(0.02)

    return step


def endless_space() -> Step:
    """White space before the JSON, without end, as some gateways send to keep a line open."""
    return _endless(_CHUNKED, b"1\r\n \r\n")


def endless_headers() -> Step:
    """Header lines without end."""
    return _endless(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n")


def redirect(code: int, loop: bool = False) -> Step:
    """A redirect to another origin (the same port under another name), or onto itself."""

    def step(request: Request) -> Iterator[Wire]:
        where = request.path if loop else f"{request.origin}/elsewhere{request.path}"
        yield http(code, {"see": "there"}, {"Location": where})

    return step


def page(code: int = 200) -> Step:
    """A web page, as portals and proxies send."""
    text = "<!doctype html><html><title>5 results</title><body>Sign in: 7, 9</body></html>"
    return raw(http(code, text.encode(), kind="text/html; charset=utf-8"))


_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunked(*chunks: bytes, end: Sequence[Wire] = (b"0\r\n\r\n",)) -> Step:
    """These raw bytes after the headers of a chunked response."""
    return raw(_CHUNKED, *chunks, *end)


def in_chunks() -> Step:
    """A good reply in chunks; no fault."""

    def pack(_request: Request, body: bytes) -> list[Wire]:
        parts = (body[:7], body[7:], b"")
        return [_CHUNKED, *(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)]

    return good_but(pack)


@cache
def bomb(megabytes: int) -> bytes:
    """A small gzip file that unpacks to as many megabytes and the beginning of a reply."""
    packer = zlib.compressobj(1, wbits=31)
    # After a full flush what follows is independent of it, so one megabyte is packed once.
    head = packer.compress(b'{"choices": "') + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * megabytes


def gzip_bomb() -> Step:
    """A small body that unpacks to a large one."""
    return raw(http(200, bomb(256), {"Content-Encoding": "gzip"}))


def encoded(encoding: str, truthfully: bool = False) -> Step:
    """A good reply that claims an encoding; truthfully only with gzip."""

    def pack(_request: Request, body: bytes) -> list[Wire]:
        packed = gzip.compress(body) if truthfully else body
        return [http(200, packed, {"Content-Encoding": encoding})]

    return good_but(pack)


def many_headers(count: int, length: int) -> Step:
    """A good reply under a great many headers."""

    fillers = {f"X-Filler-{index}": "x" * length for index in range(count)}
    return good_but(lambda _request, body: [http(200, body, fillers)])


def http_date(seconds_from_now: float) -> str:
    """A date as ``Retry-After`` may hold one."""
    return formatdate(time.time() + seconds_from_now, usegmt=True)
